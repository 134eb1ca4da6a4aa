"""Machine file (TOML) to Machine: every figure with its unit and source, all complaints at once.

A figure is written as the datasheet prints it and, where counts allow, how it follows from them:

    bf16 = { stated = "989.4 Tflop/s", source = "datasheet", derive = { units = 132, per_cycle = 4096, clock = "tensor" } }

Stated and derived must agree within 2.5 %, or `differs` says why they do not. Tensor peaks stand under
[peak.tensor.dense] or [peak.tensor.sparse]; one without that tag is refused.
"""

from __future__ import annotations

import tomllib
from typing import Any

from ..core.dtypes import TABLE
from ..core.errors import SchemaError
from ..core.figure import Figure, Level, Link
from ..core.machine import ENGINES, Machine
from . import coefficients
from .reader import Reader

KINDS = ("gpu", "cpu", "tpu", "accelerator")
SCOPES = ("sm", "core", "chip", "group")
ECC = ("inline", "sideband", "none", "")
MATH = {row.math for row in TABLE.values()}

TOP = {
    "name", "title", "vendor", "kind", "architecture", "released", "aliases", "source", "sources", "measurements",
    "conditions", "units", "per_core", "per_cycle", "clock", "peak", "level", "link", "limit", "energy", "efficiency", "fitted", "launch",
    "dispatch", "tdp", "ecc", "notes",
}  # fmt: skip
LEVEL = {"name", "capacity", "scope", "instances", "bandwidth", "latency", "technology", "source", "note", "mixes"}
LINK = {"name", "per_direction", "source", "topology", "note"}
LIMITS = {"shared_per_sm": "B", "shared_per_block": "B", "registers_per_sm": "B", "l1_per_sm": "B"}
ENERGY = {"flop": "J/flop", "byte": "J/B", "static": "W"}  # by the first word of the name


def read(text: str, where: str) -> Machine:
    """The Machine a TOML text describes; `where` names it in messages."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(where, [f"not TOML: {error}"]) from error
    reader = Reader(document, TOP)
    machine = _machine(reader, where)
    if reader.complaints:
        raise SchemaError(where, reader.complaints)
    return machine


def _machine(reader: Reader, file: str) -> Machine:
    document = reader.document
    units = reader.table(document.get("units"), "units")
    released = document.get("released")
    if released is not None and not isinstance(released, int):
        reader.complain(f"released must be a year, found {released!r}")
    return Machine(
        aliases=reader.lines("aliases"),
        notes=reader.lines("notes"),
        name=reader.text("name", needed=True),
        title=reader.text("title", needed=True),
        vendor=reader.text("vendor", needed=True),
        kind=reader.text("kind", needed=True, choices=KINDS),
        architecture=reader.text("architecture"),
        released=released,
        units={name: reader.count(value, f"units.{name}") for name, value in units.items()},
        clocks=reader.clocks,
        peaks=_peaks(reader),
        levels=_levels(reader),
        links=_links(reader),
        per_core=reader.named("per_core", lambda name: "flop/s" if name.partition(".")[0] in ENGINES else "B/s"),
        per_cycle=_per_cycle(reader),
        limits=reader.named("limit", lambda name: LIMITS.get(name, "B"), set(LIMITS)),
        energy=reader.named("energy", lambda name: ENERGY.get(name.partition(".")[0], "J")),
        efficiency=_efficiency(reader),
        fitted=coefficients.read(
            reader.table(document.get("fitted"), "fitted"), reader.complain, str(document.get("kind"))
        ),
        launch=reader.figure(document.get("launch"), "s", "launch"),
        dispatch=reader.figure(document.get("dispatch"), "s", "dispatch"),
        tdp=reader.figure(document.get("tdp"), "W", "tdp", plain=True),
        ecc=reader.text("ecc", choices=ECC),
        sources=reader.sources,
        conditions=reader.conditions,
        file=file,
    )


def _peaks(reader: Reader) -> dict[str, Figure]:
    peak = reader.table(reader.document.get("peak"), "peak", {"vector", "tensor", "special"})
    tensor = reader.table(peak.get("tensor"), "peak.tensor")
    for name in tensor:
        if name not in ("dense", "sparse"):
            reader.complain(
                f"peak.tensor.{name} does not say whether it is dense or 2:4 sparse; put it under [peak.tensor.dense] or [peak.tensor.sparse]"
            )
    groups = {
        "tensor": tensor.get("dense"),
        "vector": peak.get("vector"),
        "tensor-sparse": tensor.get("sparse"),
        "special": peak.get("special"),
    }
    peaks: dict[str, Figure] = {}
    for engine, group in groups.items():
        for name, value in reader.table(group, f"peak.{engine}").items():
            if name not in MATH:
                reader.complain(f"peak.{engine}.{name}: unknown number format; known are {', '.join(sorted(MATH))}")
            peaks[f"{engine}.{name}"] = reader.figure(value, "flop/s", f"peak.{engine}.{name}")
    return peaks


def _per_cycle(reader: Reader) -> dict[str, float]:
    """Flop per clock cycle of all cores together, plain numbers by peak."""
    rates = reader.table(reader.document.get("per_cycle"), "per_cycle")
    for name, value in rates.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            reader.complain(f"per_cycle.{name} must be a positive number, found {value!r}")
            return {}
    return {name: float(value) for name, value in rates.items()}


def _levels(reader: Reader) -> tuple[Level, ...]:
    rows = reader.document.get("level", [])
    if not isinstance(rows, list) or not rows:
        reader.complain("no [[level]] is given; the outermost memory stands last")
        return ()
    levels = tuple(_level(reader, row, number) for number, row in enumerate(rows, 1))
    names = [level.name for level in levels]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reader.complain(f"level {name} is given more than once")
    return levels


def _level(reader: Reader, row: Any, number: int) -> Level:
    entry = reader.table(row, f"level {number}", LEVEL)
    name = str(entry.get("name", ""))
    if not name:
        reader.complain(f"level {number} has no name")
    where, source = f"level {name}", str(entry.get("source", ""))
    scope = str(entry.get("scope", "chip"))
    if scope not in SCOPES:
        reader.complain(f"{where}: scope '{scope}' is not one of {', '.join(SCOPES)}")
    return Level(
        name=name,
        scope=scope,
        instances=reader.count(entry.get("instances", 1), f"{where}.instances"),
        capacity=reader.figure(entry.get("capacity"), "B", f"{where}.capacity", source, plain=True),
        bandwidth=reader.figure(entry.get("bandwidth"), "B/s", f"{where}.bandwidth", source, plain=True),
        latency=reader.figure(entry.get("latency"), "s", f"{where}.latency", source, plain=True),
        technology=str(entry.get("technology", "")),
        note=str(entry.get("note", "")),
        source=reader.sources.get(source or reader.default_source, ""),  # its figures complain where it is missing
        mixes={
            mix: reader.figure(value, "B/s", f"{where}.mixes.{mix}", source)
            for mix, value in reader.table(entry.get("mixes"), f"{where}.mixes").items()
        },
    )


def _links(reader: Reader) -> tuple[Link, ...]:
    links = []
    for number, row in enumerate(reader.rows("link"), 1):
        entry = reader.table(row, f"link {number}", LINK)
        name, source = str(entry.get("name", "")), str(entry.get("source", ""))
        if not name or "per_direction" not in entry:
            reader.complain(f"link {number} needs a name and per_direction")
        speed = reader.figure(entry.get("per_direction"), "B/s", f"link {name}.per_direction", source, plain=True)
        links.append(Link(name, speed, str(entry.get("topology", "")), str(entry.get("note", ""))))
    return tuple(links)


def _efficiency(reader: Reader) -> dict[str, Figure]:
    """Fractions of a stated ceiling that public measurements reached; plain numbers with a source."""
    shares = {}
    for name, value in reader.table(reader.document.get("efficiency"), "efficiency").items():
        entry = reader.table(value, f"efficiency.{name}", {"value", "source", "note"})
        fraction = entry.get("value")
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1.3:
            reader.complain(f"efficiency.{name}.value must be a fraction, found {fraction!r}")
            continue
        how = reader.source(str(entry.get("source", "")), f"efficiency.{name}")
        note = str(entry.get("note", "")) or how
        shares[name] = Figure("", measured=float(fraction), source=how, measurement=note)
    return shares
