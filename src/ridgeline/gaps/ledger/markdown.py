"""The ledger as `predictions.md`: every seal with its predictions and what was measured beside them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from .accuracy import cases_of
from .record import ID_DIGITS, Record, as_seal
from .verify import Finding, vouched_records


def markdown(records: Sequence[Record], head: tuple[int, str], findings: Sequence[Finding]) -> str:
    """The page, with the head on top and what is wrong with the ledger next."""
    count, last = head
    by_seal: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in cases_of(records, vouched_records(records, last)):
        by_seal[case["seal"]].append(case)
    lines = [
        "# Predictions",
        "",
        f"Head: `{cell(last)}` after {cell(count)} record{'' if count == 1 else 's'}.",
        "",
        f"To check a ledger against this page: `ridgeline ledger verify --expect {cell(last)}`.",
        "",
    ]
    if findings:
        lines += ["**This ledger is broken.** What the chain does not vouch for is shown as unsealed.", ""]
        lines += [f"- {cell(finding.text)}" for finding in findings] + [""]
    for record in records:
        if record.typed and record.kind == "seal" and record.parsed:
            lines += _section(record, by_seal[record.hash[:ID_DIGITS]])
    return "\n".join(lines)


def _section(record: Record, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """One seal: its head lines, its predictions with what counted for each, the rest of what was measured."""
    seal = as_seal(record)
    # the host's name is kept in the record; a page that gets published does without it
    environment = {key: value for key, value in seal.environment.items() if key != "host"}
    lines = [
        f"## {cell(seal.id)}",
        "",
        f"Sealed {cell(seal.time)} for {cell(seal.machine.get('name'))} by ridgeline {cell(seal.ridgeline)}, record {seal.number}."
        + (f" {cell(seal.note)}" if seal.note else ""),
        "",
        f"- content `{cell(seal.content_hash)}`",
        f"- record `{cell(seal.hash)}`",
        f"- machine file `{cell(seal.machine.get('hash'))}`",
        f"- {cell(', '.join(f'{key} {value}' for key, value in sorted(environment.items())))}",
        "",
        "| name | bound | floor µs | predicted µs | 80 % interval µs | measured µs | error | bound seen | cause |",
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
            cell(row.get("name")),
            cell(row.get("bound")),
            figure(row.get("floor_us")),
            figure(row.get("time_us")),
            f"{figure(low)} to {figure(high)}" if low is not None else "",
            figure(case.get("measured_us")) if case else f"in {cell(fused[name])}" if name in fused else "open",
            f"{case['error']:+.1%}" if case and case["error"] is not None else "",
            cell(case.get("bound_observed")),
            cell(case.get("cause")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    others = [case for case in cases if case["repeat"] or not case["sealed"] or len(case["steps"]) > 1]
    for case in others:
        parts = [f"{figure(case['measured_us'])} µs"]
        if len(case["steps"]) > 1 and case["predicted_us"]:
            parts.append(f"{figure(case['predicted_us'])} µs predicted for {len(case['steps'])} rows in one kernel")
        parts += ["repeat, does not count"] if case["repeat"] else []
        parts += [] if case["sealed"] else [f"unsealed: {case['reason']}"]
        lines += [""] if case is others[0] else []
        lines.append(f"- {cell(case['name'])}: {cell(', '.join(parts))}")
    return [*lines, ""]


def figure(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def cell(value: Any) -> str:
    """A text that cannot break out of a table or bring markup of its own."""
    text = "" if value is None else str(value).encode("utf-8", "replace").decode()
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(text.split()))
