"""Fitted coefficients of kernel families: TOML in a machine file, JSON in files of their own beside the catalog.

A machine without timings of its own borrows: first from its architecture, then from all GPUs together. What is borrowed
says so and carries the error that machines had which were left out of the fit.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.documents import to_document
from ..core.dtypes import dtype
from ..core.errors import InputError
from ..core.machine import Fitted, Machine

if TYPE_CHECKING:
    from ..core.families import Family

FOLDER = Path(__file__).with_name("catalog") / "fitted"
DEFAULTS = FOLDER / "defaults.json"
LENDERS = ("any", "hopper")  # after a machine's own architecture: all GPUs together, then the one with most timings
NUMBERS = ("error", "p90", "low", "high")


def _number(value: float) -> str:
    return repr(float(value))


def text(fitted: Mapping[str, Fitted], table: str = "fitted") -> str:
    """TOML tables of fitted coefficients, one per key."""
    lines: list[str] = []
    for key, row in fitted.items():
        source = row.source.replace("\\", "\\\\").replace('"', '\\"')
        lines += [f'[{table}."{key}"]', f'source = "{source}"', f"cases = {row.cases}"]
        lines += [f"{name} = {_number(getattr(row, name))}" for name in NUMBERS]
        if row.borrowed:
            lines.append("borrowed = true")
        told = ", ".join(f"{name} = {_number(value)}" for name, value in row.coefficients.items())
        lines.append(f"coefficients = {{ {told} }}")
        if row.ranges:
            told = ", ".join(f"{name} = [{_number(low)}, {_number(high)}]" for name, (low, high) in row.ranges.items())
            lines.append(f"ranges = {{ {told} }}")
        if row.nearby:
            lines.append(f'nearby = """\n{row.nearby}\n"""')
        lines.append("")
    return "\n".join(lines)


def read(document: Mapping[str, Any], complain: Callable[[str], None]) -> dict[str, Fitted]:
    """Fitted coefficients from their tables; each fault is told to `complain`, and its table left out."""
    found: dict[str, Fitted] = {}
    for key, row in document.items():
        fault = _fault(key, row)
        if fault:
            complain(f'fitted."{key}": {fault}')
            continue
        found[key] = Fitted(
            coefficients={name: float(value) for name, value in row["coefficients"].items()},
            **{name: float(row[name]) for name in NUMBERS},
            cases=int(row["cases"]),
            source=str(row["source"]),
            ranges={name: (float(ends[0]), float(ends[1])) for name, ends in row.get("ranges", {}).items()},
            borrowed=bool(row.get("borrowed", False)),
            nearby=row.get("nearby", "").strip(),
        )
    return found


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _fault(key: str, row: Any) -> str:
    """What is wrong with a table, empty where nothing is."""
    from ..core.families import base, formula  # the formulas bring numpy, which naming machines does without

    if not isinstance(row, dict):
        return f"must be a table, found {row!r}"
    missing = [name for name in ("coefficients", "source", "cases", *NUMBERS) if name not in row]
    if missing:
        return f"has no {', '.join(missing)}"
    try:
        family = formula(key.partition(".")[0])
    except KeyError:
        return f"there is no kernel family '{base(key.partition('.')[0])}'"
    given = row["coefficients"]
    if not isinstance(given, dict):
        return "coefficients must be a table"
    unknown = [name for name in given if name not in family.coefficients]
    if unknown:
        return (
            f"the family {family.name} has no coefficient {', '.join(unknown)}; it has {', '.join(family.coefficients)}"
        )
    try:
        for name in key.partition("@")[0].rpartition(".")[2].split("-"):
            dtype(name)
    except InputError as error:
        return str(error)
    wrong = [name for name, value in given.items() if not _positive(value)]
    wrong += [name for name in NUMBERS if not _positive(row[name])]
    if wrong:
        return f"{', '.join(wrong)} must be positive numbers"
    if not row["low"] <= 1 <= row["high"]:
        return f"low must be at most 1 and high at least 1, found {row['low']} and {row['high']}"
    if not isinstance(row["cases"], int) or not _positive(row["cases"]):
        return f"cases must be a whole number of timings, found {row['cases']!r}"
    if not isinstance(row["source"], str) or not row["source"].strip():
        return "source must say where the timings come from"
    if not isinstance(row.get("borrowed", False), bool):
        return f"borrowed must be true or false, found {row['borrowed']!r}"
    if "nearby" in row:
        fault = _table_fault(row["nearby"], family)
        if fault:
            return f"nearby {fault}"
    ranges = row.get("ranges", {})
    if not isinstance(ranges, dict):
        return "ranges must be a table"
    for name, ends in ranges.items():
        if not (isinstance(ends, list) and len(ends) == 2 and all(map(_positive, ends)) and ends[0] <= ends[1]):
            return f"ranges.{name} must be two positive numbers, the smaller first"
    return ""


def _table_fault(text: Any, family: Family) -> str:
    from ..core.families import nearby

    if not isinstance(text, str):
        return f"must be a text, found {text!r}"
    try:
        names = nearby.read(text.strip()).names
    except ValueError as error:
        return str(error)
    return "" if names == family.shape else f"must have the sizes {', '.join(family.shape)}, found {', '.join(names)}"


@cache
def _tables(path: Path) -> dict[str, dict[str, Any]]:
    """Tables of a catalog file; JSON, because reading some hundred sets of numbers must not be felt."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(path: Path, tables: Mapping[str, Mapping[str, Fitted]]) -> None:
    """A catalog file, one line per set, and the timings beside it in a file of their own."""
    parts = []
    for table, rows in tables.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(_plain(row))}" for key, row in rows.items()]
        parts.append(f" {json.dumps(table)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    timings = {key: row.nearby for rows in tables.values() for key, row in rows.items() if row.nearby}
    if timings:
        # no date in it, so that the same timings give the same file
        _timings_path(path).write_bytes(gzip.compress(json.dumps(timings).encode(), 9, mtime=0))


def _plain(row: Fitted) -> dict[str, Any]:
    return {key: value for key, value in to_document(row).items() if key != "borrowed"}


def _timings_path(path: Path) -> Path:
    return path.with_suffix(".nearby.json.gz")


@cache
def _of(path: Path, table: str) -> dict[str, Fitted]:
    complaints: list[str] = []
    found = read(_tables(path).get(table, {}), complaints.append)
    assert not complaints, f"{path.name}: {complaints}"
    return found


@cache
def own(name: str) -> dict[str, Fitted]:
    """What the catalog has for a machine."""
    path = FOLDER / f"{name}.json"
    found, timings = _of(path, "fitted"), _timings_path(path)
    if not timings.is_file():
        return found
    told = json.loads(gzip.decompress(timings.read_bytes()))
    return {key: replace(row, nearby=told.get(key, "")) for key, row in found.items()}


def with_defaults(machine: Machine) -> Machine:
    """The machine with coefficients for every family that its architecture, or any GPU, lends it."""
    if machine.kind != "gpu":
        return machine
    found = dict(machine.fitted)
    for table in dict.fromkeys((machine.architecture.partition("-")[0], *LENDERS)):
        found = {**{key: replace(row, borrowed=True) for key, row in _of(DEFAULTS, table).items()}, **found}
    return replace(machine, fitted=found)
