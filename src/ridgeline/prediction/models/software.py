"""Software: how the steps of a model are run: host work that no kernel hides, graphs, batching, memory it fills."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ...core.errors import unknown
from ...core.work import Array

DEFAULT = "library"
ENGINES = ("vllm", "sglang")  # that the usual serving engine was compared with, and that have no figures of their own


@dataclass(frozen=True)
class Software:
    name: str
    title: str
    experts: str
    step: float
    sequence: float
    request: float
    light: float
    graph: bool
    chunk: int
    first: float
    wait: float
    memory: float
    reserve: float
    source: str

    def host(self, sequences: Array) -> Array:
        """Seconds of a step that no kernel hides."""
        return self.step + self.sequence * sequences


@cache
def all_software() -> Mapping[str, Software]:
    rows = tomllib.loads((Path(__file__).parent / "software.toml").read_text(encoding="utf-8"))
    return {name: Software(name, **row) for name, row in rows.items()}


def software_named(name: str | None) -> Software:
    known = all_software()
    if name is not None and name.lower() in ENGINES:
        return replace(known[DEFAULT], name=name.lower(), experts=name.lower())
    asked = name or DEFAULT
    if asked not in known:
        raise unknown("software", asked, (*known, *ENGINES))
    return known[asked]
