"""OpTime: one distinct op or fused kernel of a predicted program; Uncounted: calls that are not in its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.cached import cached_property
from ..predict import Prediction
from .kernels import LABELS
from .plan import Unit


@dataclass(frozen=True)
class OpTime:
    """One distinct op (or fused kernel) of a program; amounts and times are sums over its `count` calls."""

    unit: Unit
    prediction: Prediction | None  # of one call with cold caches
    count: float
    floor: float
    time: float
    low: float
    high: float
    cached: float  # bytes that its calls find in the last-level cache
    launches: float
    fused: tuple[str, ...] = ()  # names of the operators that the kernel was made of
    refused: str = ""  # why there is no prediction of work that is counted

    DOCUMENT: ClassVar = (
        "name", "module", "op", "phase", "source", "count", "flops", "bytes", "bound", "limiter", "floor_us=floor",
        "time_us=time", "low_us=low", "high_us=high", "share_of_roofline", "cached_bytes=cached", "launches", "calibration", "fused?",
        "refused?",
    )  # fmt: skip

    @property
    def op(self) -> str:
        return self.unit.op.site.call.name

    @property
    def name(self) -> str:
        """The work with its sizes, `gemm m=8 n=8 k=8 in bf16`."""
        work = self.unit.work
        return repr(work).partition(":")[0] if work is not None else self.op

    @property
    def module(self) -> str:
        """The path of its module, `transformer.h.3.attn`; the class of the outermost one, which has no name."""
        names = [(part.partition(":")[0], part) for part in self.unit.op.site.modules]
        return ".".join(name for name, _ in names if name) or "".join(part.lstrip(":") for _, part in names[-1:])

    @property
    def phase(self) -> str:
        return self.unit.op.site.phase

    @property
    def source(self) -> str:
        return self.unit.op.site.source

    @property
    def flops(self) -> float:
        return amount(self.unit.work.flops) * self.count if self.unit.work is not None else 0.0

    @property
    def bytes(self) -> float:
        return amount(self.unit.work.bytes) * self.count if self.unit.work is not None else 0.0

    @cached_property
    def _longest(self) -> int:
        """The kernel that takes most of it."""
        assert self.prediction is not None
        times = [
            amount(expected.time) * amount(step.count)
            for expected, step in zip(self.prediction.expected, self.prediction.steps, strict=True)
        ]
        return int(np.argmax(times))

    @property
    def bound(self) -> str:
        return "" if self.prediction is None else str(self.prediction.bounds[self._longest].bound)

    @property
    def limiter(self) -> str:
        return "" if self.prediction is None else str(self.prediction.bounds[self._longest].limiter)

    @property
    def roofline(self) -> float:
        return 0.0 if self.prediction is None else amount(self.prediction.roofline) * self.count

    @property
    def share_of_roofline(self) -> float | None:
        return self.roofline / self.time if self.time else None

    @property
    def calibration(self) -> str:
        """What the time rests on, by the kernel known least."""
        if self.prediction is None:
            return ""
        labels = {str(expected.label) for expected in self.prediction.expected}
        return next((label for label in LABELS if label in labels), "")

    @property
    def family(self) -> tuple[str, str, str]:
        """Whose errors go together."""
        work = self.unit.work
        return (work.family, work.name, work.dtype) if work is not None else ("", "", "")


def amount(value: Any) -> float:
    return float(np.max(np.asarray(value)))


@dataclass(frozen=True)
class Uncounted:
    """Calls whose work is not known, by operator."""

    op: str
    count: float
    bytes: float
    reason: str

    DOCUMENT: ClassVar = ("op", "count", "bytes", "reason")
