"""Kernel sets: named works predicted on one machine, and every kernel of them as the numbers of a row or a point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.bound import Bound
from ..core.cached import cached_property
from ..core.errors import MissingFigure
from ..core.machine import Machine
from ..core.work import Step, Work
from .expected import Expected
from .plain import plain
from .predict import Prediction, predict

ABBREVIATIONS = {
    "batch": "b", "heads": "h", "seq_q": "s", "seq_kv": "kv", "head_dim": "d", "tokens": "t", "experts": "e",
}  # fmt: skip
UNNAMED_SIZES = ("profile", "passes", "score_passes")
CONVOLUTION_DETAILS = ("kernel", "stride", "groups", "dilation")
MAX_NAMED_SIZES = 5


@dataclass(frozen=True)
class PredictedKernel:
    """One kernel on one machine, for one case of its sizes."""

    name: str
    flops: float
    bytes: float
    time: float
    floor: float
    roofline: float
    bound: str
    limiter: str
    engine: str
    level: str  # the outermost level (or link) its bytes cross
    group: str = ""
    count: float = 1.0  # how often it runs
    low: float | None = None  # ends of the 80 % interval
    high: float | None = None
    DOCUMENT: ClassVar = (
        "flops", "bytes", "time_us=time", "low_us?=low", "high_us?=high", "floor_us=floor", "share_of_roofline", "bound", "limiter",
    )  # fmt: skip

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def attainable(self) -> float:
        return self.flops / self.roofline

    @property
    def share_of_roofline(self) -> float:
        return self.roofline / self.time

    @property
    def rate(self) -> float:
        return self.flops / self.time


@dataclass(frozen=True)
class Entry:
    """One work of a set; without a name its kernels are named by op and sizes."""

    name: str
    prediction: Prediction
    group: str = ""


@dataclass(frozen=True)
class KernelSet:
    """Works predicted on one machine. `dtype` is the format whose roof belongs to the set whether a kernel uses it or not."""

    machine: Machine
    entries: tuple[Entry, ...] = ()
    dtype: str | None = None
    ceilings: str | None = None
    title: str = ""
    notes: tuple[str, ...] = ()  # what was left out, and why

    @cached_property
    def kernels(self) -> list[PredictedKernel]:
        return [kernel for item in self.entries for kernel in kernels_of(item.prediction, item.name, item.group)]


def predict_set(
    machine: Machine,
    works: Iterable[tuple[str, Work]],
    dtype: str | None = None,
    ceilings: str | None = None,
    title: str = "",
    notes: Iterable[str] = (),
    group: Callable[[str, Work], str] = lambda name, work: "",
) -> KernelSet:
    """Those works that the machine has the ceilings for, predicted; a note for each of the others."""
    entries, left_out = [], []
    for name, work in works:
        try:
            entries.append(Entry(name, predict(work, machine, ceilings=ceilings), group(name, work)))
        except MissingFigure as missing:
            left_out.append(f"{name or kernel_name(work)} left out: {missing}")
    return KernelSet(machine, tuple(entries), dtype, ceilings, title, (*notes, *left_out))


def kernels_of(
    predictions: Prediction | Iterable[Prediction], name: str = "", group: str = ""
) -> list[PredictedKernel]:
    """Every step and every array element of predictions as one kernel each."""
    kernels: list[PredictedKernel] = []
    for prediction in [predictions] if isinstance(predictions, Prediction) else predictions:
        for step, bound, expected in zip(prediction.steps, prediction.bounds, prediction.expected, strict=True):
            kernels += _kernels(step, bound, expected, name, group)
    return kernels


def _kernels(step: Step, bound: Bound, expected: Expected, name: str, group: str) -> Iterator[PredictedKernel]:
    numbers = (bound.flops, bound.bytes, expected.time, bound.floor, expected.low, expected.high, bound.roofline)
    arrays = (*numbers, bound.bound, bound.limiter)
    columns = [np.ravel(array) for array in np.broadcast_arrays(*arrays)]
    levels = [level for level, term in bound.terms.items() if term.side == "memory"]
    count = columns[0].size
    if not name and count == 1 and step.name != bound.work.name:
        name = step.name
    for index in range(count):
        flops, moved, time, floor, low, high, roofline = (float(column[index]) for column in columns[: len(numbers)])
        limits, limiter = (str(column[index]) for column in columns[len(numbers) :])
        engine, level = str(plain(bound.engine, index) or ""), levels[-1] if levels else ""
        called = name or kernel_name(bound.work, index)
        yield PredictedKernel(
            called,
            flops,
            moved,
            time,
            floor,
            roofline,
            limits,
            limiter,
            engine,
            level,
            group,
            float(step.count),
            low,
            high,
        )


def size_text(value: float) -> str:
    if value >= 1e6 and value % 1e5 == 0:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"


def kernel_name(work: Work, index: int = 0) -> str:
    """An op and its sizes in a few characters: `gemm 4096x14336x4096`, `axpy 1e8`, `softmax 16384x4096`."""
    sizes = {key: _size(value, index) for key, value in work.shape.items()}
    main = [sizes.pop(key) for key in ("m", "n", "k", "rows", "cols") if key in sizes]
    if "in_features" in sizes and "out_features" in sizes:
        main.append(f"{sizes.pop('in_features')}→{sizes.pop('out_features')}")
    if "c_in" in sizes and "h" in sizes:
        main = [f"{sizes.pop('c_in')}→{sizes.pop('c_out')} {sizes.pop('h')}x{sizes.pop('w')}"]
        sizes = {key: text for key, text in sizes.items() if key not in CONVOLUTION_DETAILS}
    shape = main[0] + "³" if len(main) == 3 and len(set(main)) == 1 else "x".join(main)
    named = [f"{ABBREVIATIONS.get(key, key + '=')}{text}" for key, text in sizes.items() if key not in UNNAMED_SIZES]
    return " ".join([work.name or "work", *([shape] if shape else []), *named[:MAX_NAMED_SIZES]])


def _size(value: object, index: int) -> str:
    if isinstance(value, str):
        return value
    sizes = np.asarray(value, dtype=np.float64).ravel()
    return size_text(float(sizes[index if sizes.size > 1 else 0]))
