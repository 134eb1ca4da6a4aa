"""Observation: the times of a step, all its samples, and the conditions they were taken under.

    rate = amount / time      a ceiling takes the best sample, a typical run the median
    spread = half the width of the central 80 % of the samples, relative to the median

A number without its conditions is not an observation. Outliers are named and kept, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from . import statistics
from .cached import cached_property
from .errors import InputError
from .intake import Door, clean, limit, refuse_over
from .intake.door import MAX_NUMBER, shown
from .intake.text import MAX_LENGTH
from .units import counted, show
from .work import Work

SCHEMA = 1
SHORTEST, LONGEST = 1e-15, 1e9  # seconds a sample may take; the bounds keep every ratio finite


NO_WORK = Work()  # shared by all observations that count nothing, because a profile has 100,000 of them


@dataclass(frozen=True)
class Observation:
    """`target` is the ceiling or step it speaks of: `hbm`, `l2`, `vector.fp64`, `tensor.bf16`, `launch`, an op's name."""

    name: str
    target: str
    samples: tuple[float, ...]  # seconds per call, in the order they were taken
    work: Work = NO_WORK
    settings: Mapping[str, Any] = field(default_factory=dict)  # size, threads, variant, dtype, access mix
    conditions: Mapping[str, Any] = field(default_factory=dict)  # clocks, heat, power, versions, date, data
    tool: str = "ridgeline"
    version: str = ""
    notes: tuple[str, ...] = ()
    # Hardware counters, apart from the counts of the definition in `work`; absent is absent, never 0.
    kernel: str = ""  # the kernel's own name, where `name` is the step's
    flops: Mapping[str, float] = field(default_factory=dict)  # by engine: `tensor.bf16`, `vector.fp32`
    bytes: Mapping[str, float] = field(default_factory=dict)  # by level: `hbm`, `l2`, `l1`
    counters: Mapping[str, float] = field(default_factory=dict)  # signs for a diagnosis, by ridgeline's own names
    defined: Mapping[str, str] = field(default_factory=dict)  # how each of these was counted, by its name
    path: tuple[str, ...] = ()  # modules or ranges it ran under, outermost first

    schema: ClassVar = SCHEMA
    DOCUMENT: ClassVar = (
        "schema", "name", "target", "samples", "median", "best", "spread", "outliers", "flops=counted_flops",
        "bytes=counted_bytes", "settings", "conditions", "tool", "version", "notes", "kernel?",
        "observed_flops?=flops", "observed_bytes?=bytes", "counters?", "defined?", "path?",
    )  # fmt: skip

    def __repr__(self) -> str:
        times = f"median {show(self.median, 's', 3)}, best {show(self.best, 's', 3)}"
        runs = f"{counted(len(self.samples), 'sample')}, spread {self.spread * 100:.2g} %"
        more = [f"{show(value, unit, 3)} at {name}" for unit, values in (("flop", self.flops), ("B", self.bytes))
                for name, value in values.items()]  # fmt: skip
        return "\n".join(
            [f"{self.name}: {times} ({runs}; {self.tool})", *([f"  {', '.join(more[:6])}"] if more else ())]
        )

    def __post_init__(self) -> None:
        if len(self.samples) == 1 and SHORTEST <= self.samples[0] <= LONGEST:
            return
        if not self.samples or not all(SHORTEST <= sample <= LONGEST for sample in self.samples):
            limits = f"from {SHORTEST:g} to {LONGEST:g} s"
            raise InputError(f"{self.name}: an observation needs samples, all of them times {limits}")

    @cached_property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        return min(self.samples)

    @cached_property
    def spread(self) -> float:
        """Relative; 0.02 says that 80 % of the samples lie within about 2 % of the median."""
        return statistics.spread(self.samples)

    def outliers(self) -> tuple[int, ...]:
        return statistics.outliers(self.samples)

    @property
    def amount(self) -> float:
        """What was done per call: flops where there are any, else bytes at the main memory or link."""
        flops = float(np.asarray(self.work.flops))
        return flops or float(np.asarray(self.work.bytes)) or float(np.asarray(self.work.bytes_at("link")))

    @property
    def rate(self) -> float:
        """Amount over the median time."""
        return self.amount / self.median

    @property
    def best_rate(self) -> float:
        return self.amount / self.best

    @property
    def best_bandwidth(self) -> float:
        """Bytes over the best time, whatever flops there are."""
        return float(np.asarray(self.work.bytes)) / self.best

    @property
    def counted_flops(self) -> dict[str, float]:
        """Flops of the definition, by engine and dtype."""
        return {f"{engine}.{dtype}": float(np.asarray(n)) for (engine, dtype), n in self.work.by_engine().items()}

    @property
    def counted_bytes(self) -> dict[str, float]:
        """Bytes of the definition, by level, tensor and direction."""
        return {f"{level} {tensor} {way}": float(np.asarray(n)) for (level, tensor, way), n in self.work.moves.items()}


# -- from documents and profiles ---------------------------------------------------------------------------------


def from_document(document: Any) -> Observation:
    """The Observation a document describes; a newer schema is refused, an older one read."""
    door = Door("observation")
    item = read_document(document, door)
    door.close()
    assert item is not None
    return item


def read_document(document: Any, door: Door, place: str = "") -> Observation | None:
    """The same from a part of a larger document, whose door takes the complaints; None with any."""
    before = door.refused
    row = door.table(document, place)
    prefix = f"{place}, " if place else ""
    door.schema(row.get("schema"), SCHEMA)
    fields = checked_fields(row, door, prefix)
    fields["samples"] = samples(row.get("samples"), door, f"{prefix}samples")
    fields["target"] = door.text(row.get("target"), f"{prefix}target") or fields["name"]
    fields |= {
        name: door.amounts(row.get(f"observed_{name}"), f"{prefix}observed_{name}") for name in ("flops", "bytes")
    }
    counts = {
        (*_parts(key, ".", door, f"{prefix}flops"), "counted"): value
        for key, value in door.amounts(row.get("flops"), f"{prefix}flops").items()
    }
    moves = {}
    for key, value in door.amounts(row.get("bytes"), f"{prefix}bytes").items():
        level, rest = _parts(key, " ", door, f"{prefix}bytes")
        tensor, _, way = rest.rpartition(" ")
        moves[level, tensor, way] = value
    if door.refused > before:
        return None
    return Observation(**{"tool": "", **fields}, work=Work(counts=counts, moves=moves, name=fields["name"]))


def _parts(key: str, sign: str, door: Door, place: str) -> tuple[str, str]:
    first, separator, rest = key.partition(sign)
    if not separator:
        example = "vector.fp32" if sign == "." else "main A read"
        door.complain(place, f"unknown key {shown(key)}; keys are such as '{example}'")
    return first, rest


def samples(value: Any, door: Door, place: str, scale: float = 1.0) -> tuple[float, ...]:
    """Seconds from a list of times in units of `scale` seconds."""
    if isinstance(value, list | tuple):
        refuse_over("samples", len(value), f"{door.where}, {place}: {len(value):,} samples")
    times = door.numbers(value, place, SHORTEST / scale, LONGEST / scale)
    if isinstance(value, list | tuple) and not value:
        door.complain(place, "is empty; it is a list of times")
    return times if scale == 1.0 else tuple(time * scale for time in times)


def checked_fields(row: Mapping[str, Any], door: Door, prefix: str) -> dict[str, Any]:
    """The fields that every document of an observation may have, typed, clean and finite; absent ones are left out."""
    fields: dict[str, Any] = {"name": door.text(row.get("name"), f"{prefix}name", needed=True)}
    for key, value in row.items():
        if value is not None and (check := _CHECKS.get(key)) is not None:
            fields[key] = check(door, value, prefix + key)
    return fields


def plain_table(door: Door, value: Any, place: str) -> Any:
    if isinstance(value, dict) and _is_plain(value, int(limit("depth"))):
        return value
    return door.plain(door.table(value, place), place)


def _texts(door: Door, value: Any, place: str) -> dict[str, str]:
    return {name: door.text(text, f"{place}.{name}") for name, text in door.table(value, place).items()}


_CHECKS: dict[str, Callable[[Door, Any, str], Any]] = {
    "kernel": Door.text,
    "tool": Door.text,
    "version": Door.text,
    "notes": Door.texts,
    "path": Door.texts,
    "settings": plain_table,
    "conditions": plain_table,
    "counters": Door.amounts,
    "defined": _texts,
}


def admitted(items: Iterable[Observation], where: str) -> list[Observation]:
    """Observations that an importer made of somebody else's file: texts clean, amounts finite, settings plain.

    Importers check times and what they compute with; names, settings and conditions pass through them as they came.
    """
    door, passed = Door(where), list(items)
    depth = int(limit("depth"))
    plain: dict[int, bool] = {}  # of mappings that many observations share, by identity
    clean_names: dict[tuple[str, ...], bool] = {}
    for place, item in enumerate(passed):
        fine = _is_clean(
            "".join((item.name, item.target, item.kernel, item.tool, item.version, *item.notes, *item.path))
        )
        for mapping in (item.settings, item.conditions, item.defined):
            if mapping and id(mapping) not in plain:
                plain[id(mapping)] = _is_plain(mapping, depth)
            fine = fine and (not mapping or plain[id(mapping)])
        for amounts in (item.flops, item.bytes, item.counters):
            fine = fine and (not amounts or _are_amounts(amounts.values()))
            names = tuple(amounts)  # the same for all kernels of a report
            if names not in clean_names:
                clean_names[names] = _is_clean("".join(names))
            fine = fine and clean_names[names]
        if not fine:
            passed[place] = _cleaned(item, door)
    door.close()
    return passed


def _are_amounts(values: Collection[float]) -> bool:
    """Whether all are from 0 to MAX_NUMBER, without a step of Python for each."""
    return all(map((0.0).__le__, values)) and all(map(MAX_NUMBER.__ge__, values))


def _is_clean(text: str) -> bool:
    return text.isprintable() and len(text) <= MAX_LENGTH


_NUMBERS = frozenset({int, float})


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value may stay as it is; for what is no plain value of JSON the door finds the words."""
    kind = type(value)
    if kind is str:
        return _is_clean(value)
    if kind is int or kind is float:
        return bool(-MAX_NUMBER <= value <= MAX_NUMBER)
    if kind is list or kind is tuple:
        if depth > 0 and value and _NUMBERS.issuperset(map(type, value)):  # shapes
            return all(map(MAX_NUMBER.__ge__, value)) and all(map((-MAX_NUMBER).__le__, value))
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    if kind is dict:
        return depth > 0 and all(_is_plain(key, 0) and _is_plain(item, depth - 1) for key, item in value.items())
    return value is None or kind is bool


def _cleaned(item: Observation, door: Door) -> Observation:
    place = shown(item.name or item.kernel)
    changed: dict[str, Any] = {
        name: clean(getattr(item, name)) for name in ("name", "target", "kernel", "tool", "version")
    }
    changed |= {name: tuple(map(clean, getattr(item, name))) for name in ("notes", "path")}
    for name in ("settings", "conditions", "defined"):
        changed[name] = door.plain(getattr(item, name), f"{place}, {name}")
    for name in ("flops", "bytes", "counters"):
        changed[name] = door.amounts(getattr(item, name), f"{place}, {name}")
    return replace(item, **changed)
