"""Charts and tables by name: the study that computes the numbers, where there is one, and the builder that shows them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ..core.cached import cached_property
from ..core.errors import InputError
from ..core.machine import Machine

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class Named(Generic[Shown]):
    """Called with a machine and options: those of the study, or of a builder that needs nothing but the machine."""

    name: str
    summary: str
    build: Callable[..., Shown]
    study: Callable[..., Any] | None = None
    kind: str = ""

    @cached_property
    def options(self) -> list[str]:
        return [name for name in inspect.signature(self.study or self.build).parameters if name != "machine"]

    def __call__(self, machine: Machine, **options: Any) -> Shown:
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                raise InputError(f"the {self.name} {self.kind} has no {name} to choose; leave it out")
        return self.build(machine, **given) if self.study is None else self.build(self.study(machine, **given))


def by_name(kind: str, entries: Iterable[Named[Shown]]) -> dict[str, Named[Shown]]:
    return {entry.name: replace(entry, kind=kind) for entry in entries}
