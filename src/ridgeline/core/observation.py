"""Observation: the times of a step, all its samples, and the conditions they were taken under.

    rate = amount / time      a ceiling takes the best sample, a typical run the median
    spread = half the width of the central 80 % of the samples, relative to the median

A number without its conditions is not an observation. Outliers are named and kept, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from . import statistics
from .errors import InputError
from .units import counted, show
from .work import Work

SCHEMA = 1
SAME_NAME = ("version", "kernel", "settings", "conditions", "counters", "defined")  # in documents too
SHORTEST, LONGEST = 1e-15, 1e9  # seconds a sample may take; the bounds keep every ratio finite


@dataclass(frozen=True)
class Observation:
    """`target` is the ceiling or step it speaks of: `hbm`, `l2`, `vector.fp64`, `tensor.bf16`, `launch`, an op's name."""

    name: str
    target: str
    samples: tuple[float, ...]  # seconds per call, in the order they were taken
    work: Work = field(default_factory=Work)
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


def from_document(document: Mapping[str, Any]) -> Observation:
    """The Observation a document describes; a newer schema is refused, an older one read."""
    schema = document.get("schema", 0)
    if not isinstance(schema, int) or schema > SCHEMA:
        raise InputError(
            f"this observation has schema {schema!r}, which is newer than {SCHEMA}; install a newer ridgeline"
        )
    counts = {(*key.split(".", 1), "counted"): value for key, value in document.get("flops", {}).items()}
    moves = {tuple(key.split(" ")): value for key, value in document.get("bytes", {}).items()}
    return Observation(
        name=document["name"],
        target=document["target"],
        samples=tuple(document["samples"]),
        work=Work(counts=counts, moves=moves, name=document["name"]),
        tool=document.get("tool", ""),
        notes=tuple(document.get("notes", ())),
        flops=document.get("observed_flops", {}),
        bytes=document.get("observed_bytes", {}),
        path=tuple(document.get("path", ())),
        **{name: document[name] for name in SAME_NAME if name in document},
    )
