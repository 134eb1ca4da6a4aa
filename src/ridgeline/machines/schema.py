"""Machine file (TOML) to Machine: every figure with its unit and source, all complaints at once.

A figure is written as the datasheet prints it and, where counts allow, how it follows from them:

    bf16 = { stated = "989.4 Tflop/s", source = "datasheet", derive = { units = 132, per_cycle = 4096, clock = "tensor" } }

Stated and derived must agree within 2.5 %, or `differs` says why they do not. Tensor peaks stand under
[peak.tensor.dense] or [peak.tensor.sparse]; one without that tag is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core.dtypes import TABLE
from ..core.figure import NETWORK, NO_SHARE, TOPOLOGIES, TORUS, Figure, Level, Link, of_reads
from ..core.machine import ENGINES, Machine
from . import coefficients
from .reader import Reader, toml

KINDS = ("gpu", "cpu", "tpu", "accelerator")
SCOPES = ("sm", "core", "chip", "group")
ECC = ("inline", "sideband", "none")
MATH = {row.math for row in TABLE.values()}

TOP = {
    "name", "title", "vendor", "kind", "architecture", "released", "aliases", "source", "sources", "measurements",
    "conditions", "units", "per_core", "per_cycle", "clock", "peak", "level", "link", "limit", "energy", "efficiency", "fitted", coefficients.FROM, "launch",
    "dispatch", "eager_call", "backward_call", "tdp", "ecc", "notes",
}  # fmt: skip
LEVEL = {"name", "capacity", "scope", "instances", "bandwidth", "latency", "technology", "source", "note", "mixes"}
LINK = {
    "name", "per_direction", "source", "topology", "note", "links", "devices", "dimensions", "reduces", "latency",
    "efficiency", "in_network",
}  # fmt: skip
# Words of older files, and the dimensions of the torus that some of them name.
OLD_TOPOLOGIES = {
    "switched": ("switch", 0), "all-to-all": ("mesh", 0), "2d-torus": ("torus", 2), "3d-torus": ("torus", 3),
}  # fmt: skip
LIMITS = {"shared_per_sm": "B", "shared_per_block": "B", "registers_per_sm": "B", "l1_per_sm": "B"}
YEARS = (1940, 2100)
SHARES = (1e-6, 1.3)  # of a ceiling that was reached
ENERGY = {"flop": "J/flop", "byte": "J/B", "static": "W"}  # by the first word of the name


def read(text: str, where: str) -> Machine:
    """The Machine a TOML text describes; `where` names it in messages."""
    reader = Reader(toml(text, where), where, TOP)
    machine = _machine(reader, where)
    reader.close()
    return machine


def _machine(reader: Reader, file: str) -> Machine:
    document = reader.document
    released = document.get("released")
    kind = reader.text(document.get("kind"), "kind", needed=True, choices=KINDS)
    return Machine(
        aliases=reader.texts(document.get("aliases"), "aliases"),
        notes=reader.texts(document.get("notes"), "notes"),
        name=reader.text(document.get("name"), "name", needed=True),
        title=reader.text(document.get("title"), "title", needed=True),
        vendor=reader.text(document.get("vendor"), "vendor", needed=True),
        kind=kind,
        architecture=reader.text(document.get("architecture"), "architecture"),
        released=None if released is None else int(reader.number(released, "released", *YEARS, whole=True)),
        units={
            name: reader.count(value, f"units.{name}")
            for name, value in reader.table(document.get("units"), "units").items()
        },
        clocks=reader.clocks,
        peaks=_peaks(reader),
        levels=_levels(reader),
        links=_links(reader),
        per_core=reader.named("per_core", lambda name: "flop/s" if name.partition(".")[0] in ENGINES else "B/s"),
        per_cycle={  # flop per clock cycle of all cores together, by peak
            name: reader.per_cycle(value, f"per_cycle.{name}")
            for name, value in reader.table(document.get("per_cycle"), "per_cycle").items()
        },
        limits=reader.named("limit", lambda name: LIMITS.get(name, "B"), LIMITS),
        energy=reader.named("energy", lambda name: ENERGY.get(name.partition(".")[0], "J")),
        efficiency=_efficiency(reader),
        fitted=coefficients.read(
            document.get("fitted"), reader, kind, document.get(coefficients.FROM), str(document.get("title"))
        ),
        launch=reader.figure(document.get("launch"), "s", "launch"),
        dispatch=reader.figure(document.get("dispatch"), "s", "dispatch"),
        eager_call=reader.figure(document.get("eager_call"), "s", "eager_call"),
        backward_call=reader.figure(document.get("backward_call"), "s", "backward_call"),
        tdp=reader.figure(document.get("tdp"), "W", "tdp", plain=True),
        ecc=reader.text(document.get("ecc"), "ecc", choices=ECC),
        sources=reader.sources,
        conditions=reader.conditions(),
        file=file,
    )


def _peaks(reader: Reader) -> dict[str, Figure]:
    peak = reader.table(reader.document.get("peak"), "peak", {"vector", "tensor", "special"})
    tensor = reader.table(peak.get("tensor"), "peak.tensor")
    for name in tensor:
        if name not in ("dense", "sparse"):
            reader.complain(
                f"peak.tensor.{name}",
                "does not say whether it is dense or 2:4 sparse; put it under [peak.tensor.dense] or [peak.tensor.sparse]",
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
            place = f"peak.{engine}.{name}"
            if name not in MATH:
                reader.complain(place, f"unknown number format; known are {', '.join(sorted(MATH))}")
            peaks[f"{engine}.{name}"] = reader.figure(value, "flop/s", place, plain=True)
    return peaks


def _levels(reader: Reader) -> tuple[Level, ...]:
    rows = reader.items(reader.document.get("level"), "level")
    if not rows:
        reader.complain("", "no [[level]] is given; list the memory levels, main memory last")
    levels = tuple(_level(reader, row, number) for number, row in enumerate(rows, 1))
    _refuse_twins(reader, "level", levels)
    return levels


def _refuse_twins(reader: Reader, what: str, parts: Sequence[Level | Link]) -> None:
    for name, count in Counter(part.name for part in parts).items():
        if count > 1:
            reader.complain(f"{what} {name}", "is given more than once")


def _level(reader: Reader, row: Any, number: int) -> Level:
    entry = reader.table(row, f"level {number}", LEVEL)
    name = reader.text(entry.get("name"), f"level {number}.name", needed=True)
    where = f"level {name or number}"
    source = reader.text(entry.get("source"), f"{where}.source")
    mixes = {
        mix: reader.figure(value, "B/s", f"{where}.mixes.{mix}", source)
        for mix, value in reader.table(entry.get("mixes"), f"{where}.mixes").items()
    }
    bandwidth = reader.figure(entry.get("bandwidth"), "B/s", f"{where}.bandwidth", source, plain=True)
    return Level(
        name=name,
        scope=reader.text(entry.get("scope"), f"{where}.scope", choices=SCOPES) or "chip",
        instances=reader.count(entry.get("instances", 1), f"{where}.instances"),
        capacity=reader.figure(entry.get("capacity"), "B", f"{where}.capacity", source, plain=True),
        bandwidth=of_reads(bandwidth, mixes),
        latency=reader.figure(entry.get("latency"), "s", f"{where}.latency", source, plain=True),
        technology=reader.text(entry.get("technology"), f"{where}.technology"),
        note=reader.text(entry.get("note"), f"{where}.note"),
        source=reader.sources.get(source or reader.default_source, ""),  # its figures complain where it is missing
        mixes=mixes,
    )


def _links(reader: Reader) -> tuple[Link, ...]:
    rows = reader.items(reader.document.get("link"), "link")
    links = tuple(_link(reader, row, number) for number, row in enumerate(rows, 1))
    _refuse_twins(reader, "link", links)
    if sum(link.topology == NETWORK for link in links) > 1:
        reader.complain("", f"more than one [[link]] has topology {NETWORK}; give the one that collectives use")
    return links


def _link(reader: Reader, row: Any, number: int) -> Link:
    entry = reader.table(row, f"link {number}", LINK)
    name = reader.text(entry.get("name"), f"link {number}.name", needed=True)
    where = f"link {name or number}"
    source = reader.text(entry.get("source"), f"{where}.source")
    if "per_direction" not in entry:
        reader.complain(where, "needs per_direction")
    given = entry.get("topology")
    word, dimensions = OLD_TOPOLOGIES.get(given, ("", 0)) if isinstance(given, str) else ("", 0)
    topology = word or reader.text(given, f"{where}.topology", choices=TOPOLOGIES)
    links, devices, dimensions = (
        reader.count(entry[key], f"{where}.{key}") if key in entry else otherwise
        for key, otherwise in (("links", 0), ("devices", 0), ("dimensions", dimensions))
    )
    if dimensions and topology != TORUS:
        reader.complain(
            f"{where}.dimensions", f"only a {TORUS} has dimensions; the topology is {topology or 'not given'}"
        )
    efficiency, in_network = (
        _share(reader, entry[key], f"{where}.{key}") if key in entry else NO_SHARE
        for key in ("efficiency", "in_network")
    )
    return Link(
        name=name,
        per_direction=reader.figure(entry.get("per_direction"), "B/s", f"{where}.per_direction", source, plain=True),
        topology=topology,
        note=reader.text(entry.get("note"), f"{where}.note"),
        reduces=_flag(reader, entry.get("reduces", False), f"{where}.reduces"),
        latency=reader.figure(entry.get("latency"), "s", f"{where}.latency", source, plain=True),
        links=links,
        devices=devices,
        dimensions=dimensions,
        efficiency=efficiency,
        in_network=in_network,
    )


def _flag(reader: Reader, value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        reader.complain(place, f"is {value!r}; it is true or false")
    return value is True


def _share(reader: Reader, value: Any, place: str) -> Figure:
    """A fraction of a stated ceiling that a public measurement reached; a plain number with a source."""
    entry = reader.table(value, place, {"value", "source", "note"})
    fraction = reader.number(entry.get("value"), f"{place}.value", *SHARES)
    how = reader.source(reader.text(entry.get("source"), f"{place}.source"), place)
    note = reader.text(entry.get("note"), f"{place}.note") or how
    return Figure(NO_SHARE.unit, measured=fraction, source=how, measurement=note)


def _efficiency(reader: Reader) -> dict[str, Figure]:
    """Fractions of a stated ceiling that public measurements reached, by peak, level or link."""
    table = reader.table(reader.document.get("efficiency"), "efficiency")
    return {name: _share(reader, value, f"efficiency.{name}") for name, value in table.items()}
