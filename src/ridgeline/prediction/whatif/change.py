"""Change: a named transformation of a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import InputError
from ...programs.ops import Op
from .case import Case


class NoEffect(Exception):
    """A change that finds nothing to change; its text says why."""


def _same(case: Case) -> Case:
    return case


@dataclass(frozen=True)
class Change:
    """A named transformation of a case; `prepare` adds to the baseline what the change is about to act on."""

    name: str
    make: Callable[[Case], Case]
    prepare: Callable[[Case], Case] = _same
    note: str = ""


@dataclass(frozen=True)
class ChangeKind:
    """A change as it is asked for: `usage` with its value, what it does, and the function that makes it of the value."""

    usage: str
    does: str
    change: Callable[[str], Change]
    value_optional: bool = False


def op_of(case: Case, what: str) -> Op:
    if case.op is None:
        raise InputError(f"{what} needs an op with its sizes; this case is a bare count of work")
    return case.op
