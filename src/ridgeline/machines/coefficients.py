"""Fitted coefficients of kernel families: TOML in a machine file, JSON files next to the catalog.

A GPU without timings borrows: first from its architecture, then from all GPUs together. Borrowed coefficients are
marked and carry the leave-one-machine-out error.
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

if TYPE_CHECKING:  # the formulas bring numpy, which listing machines does without
    from ..core.families import Family, Key

FOLDER = Path(__file__).with_name("catalog") / "fitted"
DEFAULTS = FOLDER / "defaults.json"
LENDERS = ("any", "hopper")  # after a machine's own architecture: all GPUs together, then the one with most timings
STATISTICS = ("error", "p90", "low", "high")


def read(document: Mapping[str, Any], complain: Callable[[str], None], kind: str = "gpu") -> dict[Key, Fitted]:
    """Fitted coefficients of a kind of machine from their tables; `complain` gets each fault, a faulty table is left out."""
    fitted: dict[Key, Fitted] = {}
    for name, row in document.items():
        try:
            key = _checked(name, row, kind)
        except ValueError as fault:
            complain(f'fitted."{name}": {fault}')
            continue
        fitted[key] = Fitted(
            coefficients={name: float(value) for name, value in row["coefficients"].items()},
            **{name: float(row[name]) for name in STATISTICS},
            cases=int(row["cases"]),
            source=str(row["source"]),
            ranges={name: (float(ends[0]), float(ends[1])) for name, ends in row.get("ranges", {}).items()},
            borrowed=bool(row.get("borrowed", False)),
            nearby=row.get("nearby", "").strip(),
        )
    return fitted


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def _checked(name: str, row: Any, kind: str) -> Key:
    """The key of a table whose values are all in order; ValueError says what is wrong with it."""
    from ..core.families import Key, formula

    if not isinstance(row, dict):
        raise ValueError(f"must be a table, found {row!r}")
    if missing := [name for name in ("coefficients", "source", "cases", *STATISTICS) if name not in row]:
        raise ValueError(f"has no {', '.join(missing)}")
    key = Key.parse(name)
    try:
        family = formula(key.family, kind)
    except KeyError:
        raise ValueError(f"there is no kernel family '{key.family}'") from None
    _check_coefficients(row["coefficients"], family)
    try:
        for part in key.dtypes:
            dtype(part)
    except InputError as error:
        raise ValueError(str(error)) from error
    _check_statistics(row)
    if "nearby" in row:
        _check_timings(row["nearby"], family)
    ranges = row.get("ranges", {})
    if not isinstance(ranges, dict):
        raise ValueError("ranges must be a table")
    for size, ends in ranges.items():
        if not (isinstance(ends, list) and len(ends) == 2 and all(map(_positive, ends)) and ends[0] <= ends[1]):
            raise ValueError(f"ranges.{size} must be two positive numbers, the smaller first")
    return key


def _check_coefficients(values: Any, family: Family) -> None:
    if not isinstance(values, dict):
        raise ValueError("coefficients must be a table")
    if unknown := [name for name in values if name not in family.coefficients]:
        known = ", ".join(family.coefficients)
        raise ValueError(f"the family {family.name} has no coefficient {', '.join(unknown)}; it has {known}")


def _check_statistics(row: Mapping[str, Any]) -> None:
    wrong = [name for name, value in row["coefficients"].items() if not _positive(value)]
    wrong += [name for name in STATISTICS if not _positive(row[name])]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} must be positive numbers")
    if not row["low"] <= 1 <= row["high"]:
        raise ValueError(f"low must be at most 1 and high at least 1, found {row['low']} and {row['high']}")
    if not isinstance(row["cases"], int) or not _positive(row["cases"]):
        raise ValueError(f"cases must be an integer number of timings, found {row['cases']!r}")
    if not isinstance(row["source"], str) or not row["source"].strip():
        raise ValueError("source must say where the timings come from")
    if not isinstance(row.get("borrowed", False), bool):
        raise ValueError(f"borrowed must be true or false, found {row['borrowed']!r}")


def _check_timings(table: Any, family: Family) -> None:
    from ..core.families import nearby

    if not isinstance(table, str):
        raise ValueError(f"nearby must be a text, found {table!r}")
    try:
        names = nearby.read(table.strip()).names
    except ValueError as error:
        raise ValueError(f"nearby {error}") from error
    if names != family.shape:
        raise ValueError(f"nearby must have the sizes {', '.join(family.shape)}, found {', '.join(names)}")


@cache
def _tables(path: Path) -> dict[str, dict[str, Any]]:
    """Tables of a catalog file; JSON, because reading some hundred sets of coefficients must not be felt."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(path: Path, tables: Mapping[str, Mapping[Key, Fitted]]) -> None:
    """A catalog file, one line per set, and its timings in a second file."""
    parts = []
    for table, rows in tables.items():
        lines = []
        for key, row in rows.items():
            document = {name: value for name, value in to_document(row).items() if name != "borrowed"}
            lines.append(f"  {json.dumps(str(key))}: {json.dumps(document)}")
        parts.append(f" {json.dumps(table)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    timings = {str(key): row.nearby for rows in tables.values() for key, row in rows.items() if row.nearby}
    if timings:
        # no date in it, so that the same timings give the same file
        _timings_path(path).write_bytes(gzip.compress(json.dumps(timings).encode(), 9, mtime=0))


def _timings_path(path: Path) -> Path:
    return path.with_suffix(".nearby.json.gz")


@cache
def _fitted(path: Path, table: str) -> dict[Key, Fitted]:
    complaints: list[str] = []
    fitted = read(_tables(path).get(table, {}), complaints.append)
    assert not complaints, f"{path.name}: {complaints}"
    return fitted


@cache
def of_machine(name: str) -> dict[Key, Fitted]:
    """What the catalog has for a machine."""
    path = FOLDER / f"{name}.json"
    fitted, timings = _fitted(path, "fitted"), _timings_path(path)
    if not timings.is_file():
        return fitted
    tables = json.loads(gzip.decompress(timings.read_bytes()))
    return {key: replace(row, nearby=tables.get(str(key), "")) for key, row in fitted.items()}


def with_defaults(machine: Machine) -> Machine:
    """The machine with coefficients for every family that its architecture, or any GPU, lends it."""
    if machine.kind != "gpu":
        return machine
    fitted = dict(machine.fitted)
    for table in dict.fromkeys((machine.architecture.partition("-")[0], *LENDERS)):
        fitted = {**{key: replace(row, borrowed=True) for key, row in _fitted(DEFAULTS, table).items()}, **fitted}
    return replace(machine, fitted=fitted)
