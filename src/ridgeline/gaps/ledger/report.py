"""Accuracy of the predictions in a ledger, and the page `predictions.md` with every seal."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any

from ...core.documents import to_document
from ...core.intake import clean
from ...core.statistics import Errors, median, quantile
from ...core.version import __version__
from .record import ID_DIGITS, SCHEMA, Record, Sealed, printable, sealed_row, step_names
from .verify import ALTERED, Finding, unsealed_reason, vouched_records

NOMINAL = 0.8  # share of measurements that a predicted interval is to hold
Z_95 = 1.959964  # normal quantile of a 95 % confidence interval
MAX_INTERVAL_WIDTH = 0.4  # of a share, beyond which there are too few cases for a verdict
WORST_CASES = 10
ROOFS = ("compute", "memory")  # bounds with a share of roofline


def accuracy(records: Sequence[Record], head: tuple[int, str], findings: Sequence[Finding]) -> dict[str, Any]:
    """The report: sealed evidence, its blind part, and unsealed results, separately."""
    count, last = head
    cases = cases_of(records, vouched_records(records, last))
    first = [case for case in cases if case["sealed"] and not case["repeat"]]
    unsealed = [case for case in cases if not case["sealed"] and not case["repeat"]]
    settled = sum(len(case["steps"]) for case in first)
    seals = [record.parsed["predictions"] for record in records if "predictions" in record.parsed]
    predictions = sum(map(len, seals))
    return {
        "schema": SCHEMA,
        "ridgeline": __version__,
        "head": {"count": printable(count), "hash": printable(last)},
        "intact": not any(finding.fault for finding in findings),
        "findings": to_document(list(findings)),
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


class FirstMeasurements(set[tuple[str, str, bool]]):
    """Which predictions have a measurement that counts: a sealed one and an unsealed one each, whichever came first."""

    def is_repeat(self, seal: str, item: Mapping[str, Any], sealed: bool) -> bool:
        """Whether a measurement comes after one that counts; else it is the one from now on."""
        keys = {(seal, name, sealed) for name in step_names(item)}
        repeat = not self.isdisjoint(keys)
        if not repeat:
            self.update(keys)
        return repeat


def cases_of(records: Sequence[Record], vouched: set[int]) -> list[dict[str, Any]]:
    """Every measurement with its prediction, in the order they were settled.

    The first sealed measurement of a prediction counts, and among the unsealed the first too; later ones are repeats.
    A prediction is blind when the ledger held no measurement of the same case on the same machine before it was sealed.
    """
    cases: list[dict[str, Any]] = []
    seals: dict[str, tuple[Record, str, dict[str, Any], set[str]]] = {}
    counted = FirstMeasurements()
    known: set[str] = set()
    for record in records:
        content = record.parsed
        if "predictions" in content:
            machine, rows = content["machine"]["name"], {row["name"]: row for row in content["predictions"]}
            blind = {name for name, row in rows.items() if _case_key(machine, row) not in known}
            seals[record.hash] = (record, machine, rows, blind)
        if content.get("seal") not in seals:
            continue
        seal, machine, rows, blind = seals[content["seal"]]
        for item in content["items"]:
            row = sealed_row(rows, item)
            reason = item["reason"] or unsealed_reason(row, seal, item, record.time)
            if not {seal.number, record.number} <= vouched:
                reason = reason or ALTERED
            used = {**(row or {"name": item["name"]}), **item.get("claimed", {})}
            repeat, unseen = counted.is_repeat(seal.hash, item, not reason), blind.issuperset(step_names(item))
            evidence = {"sealed": not reason, "reason": reason, "repeat": repeat, "blind": unseen}
            cases.append({**_case(item, used, seal, machine), **evidence})
            known.add(_case_key(machine, used))
    return cases


def _case(item: Mapping[str, Any], used: Mapping[str, Any], seal: Record, machine: str) -> dict[str, Any]:
    """A measured item with the prediction it was compared with."""
    return {
        "name": item["name"],
        "steps": list(step_names(item)),
        "family": str(used.get("family") or used.get("op") or "other"),
        "machine": machine,
        "seal": seal.hash[:ID_DIGITS],
        "sealed_at": seal.time,
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
    }


def _case_key(machine: str, row: Mapping[str, Any]) -> str:
    """What makes two predictions one case: op, dtype, shape and backend on a machine, or the name where there is no op."""
    keys = ("op", "dtype", "shape", *(["backend"] if row.get("backend") else []))
    case = {key: row.get(key) for key in keys} if row.get("op") else {"name": row["name"]}
    return json.dumps([machine, case], sort_keys=True)


def summary(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Regimes hit, errors by family and machine over time and by seal, intervals kept, the worst misses."""
    regimes = [case for case in cases if case["bound_predicted"] and case["bound_observed"]]
    ranged = [case for case in cases if case["low_us"] is not None and case["high_us"] is not None]
    timed = [case for case in cases if case["error"] is not None]
    families: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    seals: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for case in timed:
        for month in ("all", case["sealed_at"][:7]):
            families[case["family"], case["machine"], month].append(case)
        seals[case["seal"], case["sealed_at"], case["machine"]].append(case)
    inside = share(sum(case["low_us"] <= case["measured_us"] <= case["high_us"] for case in ranged), len(ranged))
    # by factor: a time half of what was predicted is as far off as one twice as long
    worst = sorted(timed, key=lambda case: -abs(log(case["predicted_us"] / case["measured_us"])))[:WORST_CASES]
    return {
        "cases": len(cases),
        "regimes": share(sum(case["bound_predicted"] == case["bound_observed"] for case in regimes), len(regimes)),
        "error": errors(timed),
        "by_family": _errors_by(("family", "machine", "month"), dict(sorted(families.items()))),
        "by_seal": _errors_by(("seal", "time", "machine"), seals),
        "efficiency": efficiency(cases),
        "intervals": {**inside, "nominal": NOMINAL, "verdict": _calibrated(inside)},
        "worst": [dict(case) for case in worst],
    }


def errors(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors of the predicted times, |predicted / measured - 1|, and their signed median."""
    if not cases:
        return {"cases": 0, "median": None, "p90": None, "signed": None}
    if len(cases) == 1:  # most seals of a long ledger, and numpy is slow to start
        signed = cases[0]["predicted_us"] / cases[0]["measured_us"] - 1
        return {"cases": 1, "median": abs(signed), "p90": abs(signed), "signed": signed}
    errors = Errors.of([case["predicted_us"] for case in cases], [case["measured_us"] for case in cases])
    return {"cases": len(cases), "median": errors.median, "p90": errors.p90, "signed": errors.signed}


def _errors_by(keys: Sequence[str], groups: Mapping[Any, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    return [{**dict(zip(keys, names, strict=True)), **errors(group)} for names, group in groups.items()]


def efficiency(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Achieved share of roofline, floor over measured time, by machine and bound.

    A measured value for `--efficiency`, in place of the default 0.78 of tuned kernels.
    """
    reached: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in cases:
        if case.get("floor_us") and case["bound_predicted"] in ROOFS:
            reached[case["machine"], case["bound_predicted"]].append(case["floor_us"] / case["measured_us"])
    rows = []
    for (machine, bound), shares in sorted(reached.items()):
        quartiles = {"low": quantile(shares, 0.25), "high": quantile(shares, 0.75)}
        rows.append({"machine": machine, "bound": bound, "cases": len(shares), "median": median(shares), **quartiles})
    return rows


def share(hits: int, count: int) -> dict[str, Any]:
    """hits / count with its 95 % uncertainty (Wilson's score interval, sensible at 0, at 1 and for few cases)."""
    if not count:
        return {"cases": 0, "hits": 0, "share": None, "low": None, "high": None}
    rate, spread = hits / count, Z_95**2 / count
    middle = (rate + spread / 2) / (1 + spread)
    reach = Z_95 * sqrt(rate * (1 - rate) / count + spread / (4 * count)) / (1 + spread)
    low, high = max(0.0, middle - reach), min(1.0, middle + reach)
    return {"cases": count, "hits": hits, "share": rate, "low": low, "high": high}


def _calibrated(inside: Mapping[str, Any]) -> str:
    if inside["share"] is None:
        return "unknown"
    if inside["high"] < NOMINAL:
        return "too narrow"
    if inside["low"] > NOMINAL:
        return "too wide"
    return "calibrated" if inside["high"] - inside["low"] < MAX_INTERVAL_WIDTH else "too few cases"


# -- the page ---------------------------------------------------------------------------------------------------


def markdown(records: Sequence[Record], head: tuple[int, str], findings: Sequence[Finding]) -> str:
    """The page: head first, then faults of the ledger, then every seal."""
    count, last = head
    by_seal: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in cases_of(records, vouched_records(records, last)):
        by_seal[case["seal"]].append(case)
    records_text = f"{cell(count)} record{'' if count == 1 else 's'}"
    lines = ["# Predictions", "", f"Head: {code(last)} after {records_text}.", ""]
    lines += [f"To check a ledger against this page: {code(f'ridgeline ledger verify --expect {last}')}.", ""]
    if any(finding.fault for finding in findings):
        lines += ["**This ledger is broken.** Records outside the intact chain are shown as unsealed.", ""]
    if findings:
        lines += [f"- {cell(finding.text)}" for finding in findings] + [""]
    for record in records:
        if record.typed and record.kind == "seal" and record.parsed:
            lines += _section(record, by_seal[record.hash[:ID_DIGITS]])
    return "\n".join(lines)


def _section(record: Record, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """One seal: its head lines, its predictions with what counted for each, the rest of what was measured."""
    seal = Sealed.of(record)
    # the host's name is kept in the record; a page that gets published does without it
    environment = {key: value for key, value in seal.environment.items() if key != "host"}
    lines = [
        f"## {cell(seal.id)}",
        "",
        f"Sealed {cell(seal.time)} for {cell(seal.machine.get('name'))} by ridgeline {cell(seal.ridgeline)}, record {seal.number}."
        + (f" {cell(seal.note)}" if seal.note else ""),
        "",
        f"- content {code(seal.content_hash)}",
        f"- record {code(seal.hash)}",
        f"- machine file {code(seal.machine.get('hash'))}",
        f"- {cell(', '.join(f'{key} {value}' for key, value in sorted(environment.items())))}",
        "",
        "| name | bound | floor µs | predicted µs | 80 % interval µs | measured µs | error | observed bound | cause |",
        "|---|---|--:|--:|--:|--:|--:|---|---|",
    ]
    first = [case for case in cases if case["sealed"] and not case["repeat"]]
    counts = {case["name"]: case for case in first if len(case["steps"]) == 1}
    fused = {name: case["name"] for case in first if len(case["steps"]) > 1 for name in case["steps"]}
    for row in seal.predictions:
        name = row.get("name", "")
        case = counts.get(name, {})
        low, high = row.get("low_us"), row.get("high_us")
        cells = (
            *(cell(row.get(key)) for key in ("name", "bound")),
            *(figure(row.get(key)) for key in ("floor_us", "time_us")),
            f"{figure(low)} to {figure(high)}" if low is not None else "",
            figure(case.get("measured_us")) if case else f"in {cell(fused[name])}" if name in fused else "open",
            f"{100 * case['error']:+.1f} %" if case and case["error"] is not None else "",
            *(cell(case.get(key)) for key in ("bound_observed", "cause")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    others = [case for case in cases if case["repeat"] or not case["sealed"] or len(case["steps"]) > 1]
    lines += [""] if others else []
    for case in others:
        parts = [f"{figure(case['measured_us'])} µs"]
        if len(case["steps"]) > 1 and case["predicted_us"]:
            parts.append(f"{figure(case['predicted_us'])} µs predicted for {len(case['steps'])} rows in one kernel")
        parts += ["repeat, not counted"] if case["repeat"] else []
        parts += [] if case["sealed"] else [f"unsealed: {case['reason']}"]
        lines.append(f"- {cell(case['name'])}: {cell(', '.join(parts))}")
    return [*lines, ""]


def figure(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def cell(value: Any) -> str:
    """A text that cannot break out of a table or bring markup of its own: every sign with a meaning is escaped."""
    text = "" if value is None else " ".join(clean(str(value)).split())
    return re.sub(r"([\\`*_\[\]<>|#~&])", r"\\\1", text)


def code(value: Any) -> str:
    """A text between backticks, which takes none inside."""
    return f"`{clean(str(value)).replace('`', '').strip() or ' '}`"
