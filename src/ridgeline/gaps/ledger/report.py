"""How good the predictions of a ledger were: every measurement beside its prediction, and the shares and errors of all."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import log, sqrt
from typing import Any

import numpy as np

from ...core.version import __version__
from .intake import predicted, steps
from .record import SCHEMA, SHORT, Record
from .spelling import shown
from .verify import ALTERED, Finding, judge, standing

NOMINAL, SURE = 0.8, 1.959964  # what an interval promises; normal quantile of a 95 % uncertainty
VAGUE = 0.4  # an uncertainty of a share so wide that agreeing with it says nothing
WORST = 10
ROOFS = ("compute", "memory")  # bounds that a share of a roof makes sense of


def document(records: Sequence[Record], head: tuple[int, str], findings: Sequence[Finding]) -> dict[str, Any]:
    """All of it; sealed evidence, the blind part of it and unsealed results apart."""
    count, last = head
    cases = joined(records, standing(records, last))
    first = [case for case in cases if case["sealed"] and not case["repeat"]]
    unsealed = [case for case in cases if not case["sealed"] and not case["repeat"]]
    settled = sum(len(case["steps"]) for case in first)
    seals = [said["predictions"] for said in (record.said for record in records) if "predictions" in said]
    predictions = sum(map(len, seals))
    return {
        "schema": SCHEMA,
        "ridgeline": __version__,
        "head": {"count": shown(count), "hash": shown(last)},
        "intact": not findings,
        "findings": [asdict(finding) for finding in findings],
        "seals": len(seals),
        "predictions": predictions,
        "settled": settled,
        "open": predictions - settled,
        "repeats": sum(case["repeat"] for case in cases),
        "sealed": summary(first),
        "blind": summary([case for case in first if case["blind"]]),
        "unsealed": summary(unsealed) | {"reasons": dict(Counter(case["reason"] for case in unsealed))},
        "cases": cases,
    }


class Counted:
    """Which predictions have a measurement that counts: a sealed one and an unsealed one each, whichever came first."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, bool]] = set()

    def repeat(self, seal: str, names: Sequence[str], sealed: bool) -> bool:
        """Whether a measurement of these predictions comes after one that counts; else it is the one from now on."""
        keys = {(seal, name, sealed) for name in names}
        if keys & self._seen:
            return True
        self._seen |= keys
        return False


def joined(records: Sequence[Record], vouched: set[int]) -> list[dict[str, Any]]:
    """Every measurement beside its prediction, in the order they were settled.

    The first sealed measurement of a prediction counts, and among the unsealed the first too; later ones are repeats.
    A prediction is blind when no measurement of the same case on the same machine stood in the ledger before it was
    sealed.
    """
    cases: list[dict[str, Any]] = []
    seals: dict[str, tuple[Record, str, dict[str, Any], set[str]]] = {}
    counted = Counted()
    known: set[str] = set()
    for record in records:
        said = record.said
        if "predictions" in said:
            machine, rows = said["machine"]["name"], {row["name"]: row for row in said["predictions"]}
            blind = {name for name, row in rows.items() if _same(machine, row) not in known}
            seals[record.hash] = (record, machine, rows, blind)
        if said.get("seal") not in seals:
            continue
        made, machine, rows, blind = seals[said["seal"]]
        for item in said["items"]:
            row, names = predicted(rows, item), steps(item)
            reason = item["reason"] or judge(row, made.time, item, record.time)
            if not {made.number, record.number} <= vouched:
                reason = reason or ALTERED
            used = {**(row or {"name": item["name"]}), **item.get("claimed", {})}
            cases.append(
                {
                    "name": item["name"],
                    "steps": list(names),
                    "family": str(used.get("family") or used.get("op") or "other"),
                    "machine": machine,
                    "seal": made.hash[:SHORT],
                    "sealed_at": made.time,
                    "measured_at": item.get("measured_at"),
                    "floor_us": used.get("floor_us"),
                    "predicted_us": used.get("time_us"),
                    "low_us": used.get("low_us"),
                    "high_us": used.get("high_us"),
                    "measured_us": item["measured_us"],
                    "error": used["time_us"] / item["measured_us"] - 1 if used.get("time_us") else None,
                    "bound_predicted": used.get("bound"),
                    "bound_observed": item.get("bound_observed"),
                    "cause": item.get("cause", ""),
                    "sealed": not reason,
                    "reason": reason,
                    "repeat": counted.repeat(made.hash, names, not reason),
                    "blind": blind.issuperset(names),
                }
            )
            known.add(_same(machine, used))
    return cases


def _same(machine: str, row: Mapping[str, Any]) -> str:
    """What makes two predictions one case: op, dtype, shape and backend on a machine, or the name where there is no op."""
    keys = ("op", "dtype", "shape", *(["backend"] if row.get("backend") else []))
    case = {key: row.get(key) for key in keys} if row.get("op") else {"name": row["name"]}
    return json.dumps([machine, case], sort_keys=True)


def summary(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Regimes hit, errors by family and machine over time and by seal, intervals kept, the worst misses."""
    regimes = [case for case in cases if case["bound_predicted"] and case["bound_observed"]]
    ranged = [case for case in cases if case["low_us"] is not None and case["high_us"] is not None]
    timed = [case for case in cases if case["error"] is not None]
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    seals: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for case in timed:
        for month in ("all", case["sealed_at"][:7]):
            groups[case["family"], case["machine"], month].append(case)
        seals[case["seal"], case["sealed_at"], case["machine"]].append(case)
    inside = share(sum(case["low_us"] <= case["measured_us"] <= case["high_us"] for case in ranged), len(ranged))
    # by factor: a time half of what was predicted is as far off as one twice as long
    worst = sorted(timed, key=lambda case: -abs(log(case["predicted_us"] / case["measured_us"])))[:WORST]
    return {
        "cases": len(cases),
        "regimes": share(sum(case["bound_predicted"] == case["bound_observed"] for case in regimes), len(regimes)),
        "error": errors(timed),
        "by_family": [
            {"family": family, "machine": machine, "month": month, **errors(groups[family, machine, month])}
            for family, machine, month in sorted(groups)
        ],
        "by_seal": [
            {"seal": seal, "time": time, "machine": machine, **errors(found)}
            for (seal, time, machine), found in seals.items()
        ],
        "efficiency": efficiency(cases),
        "intervals": {**inside, "nominal": NOMINAL, "verdict": _calibrated(inside)},
        "worst": [dict(case) for case in worst],
    }


def errors(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of predicted over measured minus one: middle and 90th percentile of its size, and its signed middle."""
    if not cases:
        return {"cases": 0, "median": None, "p90": None, "signed": None}
    signed = np.array([case["error"] for case in cases])
    return {
        "cases": len(cases),
        "median": float(np.median(abs(signed))),
        "p90": float(np.quantile(abs(signed), 0.9)),
        "signed": float(np.median(signed)),
    }


def efficiency(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The share of the roof that was reached, floor over measured time, by machine and side of the roof.

    It is what `--efficiency` asks for, from measurements instead of the 0.78 that tuned kernels usually reach.
    """
    reached: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in cases:
        if case.get("floor_us") and case["bound_predicted"] in ROOFS:
            reached[case["machine"], case["bound_predicted"]].append(case["floor_us"] / case["measured_us"])
    return [
        {
            "machine": machine,
            "bound": bound,
            "cases": len(found),
            "median": float(np.median(found)),
            "low": float(np.quantile(found, 0.25)),
            "high": float(np.quantile(found, 0.75)),
        }
        for (machine, bound), found in sorted(reached.items())
    ]


def share(hits: int, count: int) -> dict[str, Any]:
    """hits / count with its 95 % uncertainty (Wilson's score interval, sensible at 0, at 1 and for few cases)."""
    if not count:
        return {"cases": 0, "hits": 0, "share": None, "low": None, "high": None}
    rate, spread = hits / count, SURE**2 / count
    middle = (rate + spread / 2) / (1 + spread)
    reach = SURE * sqrt(rate * (1 - rate) / count + spread / (4 * count)) / (1 + spread)
    return {
        "cases": count,
        "hits": hits,
        "share": rate,
        "low": max(0.0, middle - reach),
        "high": min(1.0, middle + reach),
    }


def _calibrated(inside: Mapping[str, Any]) -> str:
    if inside["share"] is None:
        return "not known"
    if inside["high"] < NOMINAL:
        return "too narrow"
    if inside["low"] > NOMINAL:
        return "too wide"
    return "as promised" if inside["high"] - inside["low"] < VAGUE else "too few to tell"
