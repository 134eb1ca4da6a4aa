"""Counted: what an operator call costs, or why that is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.work import Work
from .arguments import Arguments

KINDS = WORK, FREE, WRAPPER, HOST, UNKNOWN = "work", "free", "wrapper", "host", "unknown"


@dataclass(frozen=True)
class Counted:
    """One call: `work` where its kind is work, `reason` where it is unknown."""

    kind: str
    work: Work | None = None
    backend: str = ""  # the library whose kernels the operator's name decides on: flash2, cudnn, efficient
    reason: str = ""


Rule = Callable[[Arguments], Work | Counted]


def by(backend: str, work: Work) -> Counted:
    return Counted(WORK, work, backend)
