"""Fitted coefficients of kernel families: TOML in a machine file, JSON files next to the catalog.

A GPU without timings borrows (`transfer.py`). Borrowed coefficients are marked and carry the leave-one-machine-out error.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.documents import to_document
from ..core.dtypes import dtype
from ..core.errors import InputError
from ..core.fitted import Fitted
from ..core.intake import Door
from ..core.intake.door import shown
from ..core.machine import Machine
from ..core.packed import Packed, opened
from ..core.units import MAX_SIZE
from .transfer import BEYOND, MATRIX_FORMATS, WITHIN, borrowed

if TYPE_CHECKING:  # the formulas bring numpy, which listing machines does without
    from ..core.families import Family, Key

FOLDER = Path(__file__).with_name("catalog") / "fitted"
DEFAULTS = FOLDER / "defaults.json"
STATISTICS = ("error", "p90", "low", "high")
KEYS = {"coefficients", "source", "cases", "ranges", "borrowed", "nearby", "jitter", *STATISTICS}
RANGE = (1e-9, MAX_SIZE)  # of sizes
SHARES = (1e-12, 1e12)  # of errors, relative
MAX_JITTER = 1.0  # seconds
FROM = "fitted_from"  # in a machine file: the machine of the catalog that has the coefficients
SAME_AS = " same as "  # between two names of an archive: the text of the first is written at the second
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that an archive can have
TIMINGS = re.compile(r"[A-Za-z0-9_+. \n-]*")


def read(rows: Any, door: Door, kind: str = "gpu", of: Any = None, title: str = "") -> dict[Key, Fitted]:
    """Fitted coefficients of a kind of machine from their tables, and where these have none from the catalog's machine `of`.

    The door hears each fault.
    """
    fitted = dict(_of_named(of, door, title))
    for name, row in door.table(rows, "fitted").items():
        table = door.table(row, f'fitted."{name}"', KEYS)
        missing = [key for key in ("coefficients", "source", "cases", *STATISTICS) if key not in table]
        if missing and isinstance(row, Mapping):
            door.complain(f'fitted."{name}"', f"has no {', '.join(missing)}")
        if not missing and (known := _key(name, door, kind)):
            fitted[known[0]] = _row(table, f'fitted."{name}"', door, known[1])
    return fitted


def _key(name: str, door: Door, kind: str) -> tuple[Key, Family] | None:
    """The key of a table and the family it belongs to."""
    from ..core.families import Key, formula

    place = f'fitted."{name}"'
    try:
        key = Key.parse(name)
        for part in key.dtypes:
            dtype(part)
        family = formula(key, kind)
    except KeyError:
        door.complain(place, f"there is no kernel family {shown(name.partition('.')[0].partition('-')[0])}")
        return None
    except (ValueError, InputError) as error:
        door.complain(place, str(error))
        return None
    if str(key) != name:
        door.complain(place, f"is written {shown(str(key))}")
        return None
    return key, family


def _row(table: Mapping[str, Any], place: str, door: Door, family: Family) -> Fitted:
    # a formula holds within the bounds that its coefficients have in a fit; beyond, its time may be no number
    values = door.table(table["coefficients"], f"{place}.coefficients", family.coefficients)
    error, p90 = (door.number(table[name], f"{place}.{name}", *SHARES) for name in ("error", "p90"))
    borrowed = table.get("borrowed", False)
    if not isinstance(borrowed, bool):
        door.complain(f"{place}.borrowed", f"must be true or false, found {shown(borrowed)}")
    return Fitted(
        coefficients={
            name: door.number(value, f"{place}.coefficients.{name}", bounds.low, bounds.high)
            for name, value in values.items()
            if (bounds := family.coefficients.get(name))
        },
        error=error,
        p90=p90,
        low=door.number(table["low"], f"{place}.low", SHARES[0], 1.0),
        high=door.number(table["high"], f"{place}.high", 1.0, SHARES[1]),
        cases=int(door.number(table["cases"], f"{place}.cases", low=1, high=1e9, whole=True)),
        source=door.text(table["source"], f"{place}.source", needed=True),
        ranges={
            name: _ends(value, f"{place}.ranges.{name}", door)
            for name, value in door.table(table.get("ranges"), f"{place}.ranges").items()
        },
        borrowed=bool(borrowed),
        nearby=_timings(table.get("nearby", ""), f"{place}.nearby", door, family),
        jitter=door.number(table.get("jitter", 0.0), f"{place}.jitter", 0.0, MAX_JITTER),
    )


def _ends(value: Any, place: str, door: Door) -> tuple[float, float]:
    ends = door.numbers(value, place, *RANGE)
    if len(ends) == 2 and ends[0] <= ends[1]:
        return ends[0], ends[1]
    if isinstance(value, list) and (ends or not value):
        door.complain(place, "must be two numbers, the smaller first")
    return 1.0, 1.0


def _timings(value: Any, place: str, door: Door, family: Family) -> str:
    """The table of similar timings as it came, because its lines are its rows; nothing but names and numbers is in it."""
    from ..core.families import nearby

    if not isinstance(value, str):
        door.complain(place, f"must be a text, found {shown(value)}")
        return ""
    text = value.strip()
    if not text:
        return ""
    try:
        if not TIMINGS.fullmatch(text):
            raise ValueError("must have names and numbers only")
        timings = nearby.read(text)
    except ValueError as error:
        door.complain(place, str(error))
        return ""
    if complaint := timings.unfit(family):
        door.complain(place, complaint)
    return text


@cache
def _tables(path: Path) -> dict[str, dict[str, Any]]:
    """Tables of a catalog file; JSON, because reading some hundred sets of coefficients must not be felt."""
    tables: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {
        table: {key: {**tables.get(_shared(table), {}).get(key, {}), **row} for key, row in rows.items()}
        for table, rows in tables.items()
    }


def _shared(table: str) -> str:
    """The table whose rows another one repeats, but for what it says itself."""
    kind, _, architecture = table.partition(" ")
    return f"{WITHIN} {architecture}" if kind == BEYOND else ""


def write(path: Path, tables: Mapping[str, Mapping[Key, Fitted]]) -> None:
    """A catalog file, one line per set, and its timings in a second file."""
    parts = []
    for table, rows in tables.items():
        lines, shared = [], tables.get(_shared(table), {})
        for key, row in rows.items():
            known = to_document(shared[key]) if key in shared else {"borrowed": row.borrowed, "jitter": 0.0}
            document = {name: value for name, value in to_document(row).items() if known.get(name) != value}
            lines.append(f"  {json.dumps(str(key))}: {json.dumps(document)}")
        parts.append(f" {json.dumps(table)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    timings = {str(key): text for rows in tables.values() for key, row in rows.items() if (text := str(row.nearby))}
    if timings:
        _pack(timings, _timings_path(path))


def _pack(texts: Mapping[str, str], path: Path) -> None:
    """Texts by name into an archive; those that formats share are written once."""
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    first: dict[str, str] = {}  # name of each text
    with ZipFile(path, "w") as archive:
        for name, text in texts.items():
            same = first.setdefault(text, name)
            # a fixed date, so that the same texts give the same file
            entry = ZipInfo(name if same == name else f"{name}{SAME_AS}{same}", date_time=EPOCH)
            archive.writestr(entry, text if same == name else "", ZIP_DEFLATED, compresslevel=9)


def _unpacked(path: Path) -> dict[str, Packed]:
    """The texts of an archive by name, each read when it is asked for."""
    parts = [entry.partition(SAME_AS) for entry in opened(path).namelist()]
    return {name: Packed(path, same or name) for name, _, same in parts}


def _timings_path(path: Path) -> Path:
    return path.with_suffix(".nearby.zip")


@cache
def _fitted(path: Path, table: str) -> dict[Key, Fitted]:
    """Of a file of the catalog, which the tests have checked: it is used as it is."""
    rows = _tables(path).get(table)
    if not rows:  # as for CPUs, which are read where formulas are not needed, and should load nothing heavy
        return {}
    from ..core.families import Key

    return {
        Key.parse(name): Fitted(**row | {"ranges": {size: tuple(ends) for size, ends in row["ranges"].items()}})
        for name, row in rows.items()
    }


@cache
def of_machine(name: str) -> dict[Key, Fitted]:
    """What the catalog has for a machine."""
    path = FOLDER / f"{name}.json"
    fitted, timings = _fitted(path, "fitted"), _timings_path(path)
    if not timings.is_file():
        return fitted
    texts = _unpacked(timings)
    return {key: replace(row, nearby=texts.get(str(key), "")) for key, row in fitted.items()}


def _of_named(name: Any, door: Door, title: str) -> Mapping[Key, Fitted]:
    timed = [path.stem for path in FOLDER.glob("*.json") if path != DEFAULTS]
    named = door.text(name, FROM, choices=timed)
    if named not in timed:
        return {}
    if _title(named) != title:
        what = f"is the {_title(named)}, and this machine is titled {shown(title)}"
        door.complain(FROM, f"{what}; leave it out, and other machines lend their coefficients")
    return of_machine(named)


@cache
def _title(name: str) -> str:
    text = (FOLDER.parent / f"{name}.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["title"])


def beside_catalog(machine: Machine) -> tuple[str, dict[Key, Fitted]]:
    """The machine of the catalog whose coefficients a machine has, and those fitted to timings of its own.

    A machine that was detected or read has the very objects of the catalog, so that nothing is unpacked to compare them.
    """
    own = dict(machine.calibrated)
    for path in sorted(FOLDER.glob("*.json")) if own and machine.kind == "gpu" else ():
        rows = of_machine(path.stem) if path != DEFAULTS else {}
        same = {key for key, row in rows.items() if own.get(key) is row}
        if same and rows.keys() <= own.keys() and machine.title == _title(path.stem):
            return path.stem, {key: row for key, row in own.items() if key not in same}
    return "", own


def joined(first: Machine, second: Machine) -> dict[Key, Fitted]:
    """Of two files of one machine: what was fitted to its own timings, else the catalog's, else borrowed; the first's before the second's."""
    groups = (
        lambda machine: beside_catalog(machine)[1],
        lambda machine: machine.calibrated,
        lambda machine: machine.fitted,
    )
    return {
        key: row for group in reversed(groups) for machine in (second, first) for key, row in group(machine).items()
    }


def _of_one_lender(rows: Mapping[Key, Fitted]) -> dict[Key, Fitted]:
    """Without borrowed products with a bias, and variants, that were timed on other machines than the plain products.

    A bias costs next to nothing beside its product, and rows that are no multiple of 128 take about as long as those that are. Timings
    of one library without, and of another with it, said that it takes three times as long, or half; so did those of fp8 that
    quantize first and those that do not.
    """
    from ..core.families.product import BIASED

    def fits(key: Key, row: Fitted) -> bool:
        if not row.borrowed or key.family != "gemm":
            return True
        dtypes = MATRIX_FORMATS if key.dtype in MATRIX_FORMATS else (key.dtype,)  # one of the two serves both
        plain = [known for each in dtypes if (known := rows.get(key._replace(op="", variant="", dtype=each)))]
        return not any(
            (key.op == BIASED or known.coefficients.get("prepare")) and lender(known) != lender(row) for known in plain
        )

    return {key: row for key, row in rows.items() if fits(key, row)}


def lender(row: Fitted) -> str:
    """`h100-sxm, h200-sxm` of borrowed rows, whose sources begin with the machines; nothing for a machine's own."""
    return row.source.partition(":")[0] if row.borrowed else ""


def with_defaults(machine: Machine) -> Machine:
    """The machine with coefficients for every family that other GPUs lend it, where it has none of its own."""
    if machine.kind != "gpu":
        return machine
    own = machine.fitted

    def lent(table: str) -> dict[Key, Fitted]:
        return {key: row for key, row in _fitted(DEFAULTS, table).items() if key not in own}

    return replace(machine, fitted=_of_one_lender({**borrowed(machine, lent), **own}))
