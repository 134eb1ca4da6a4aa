"""Sorts, selections and prefix sums without a formula: steps that depend on each other, which bytes and flops do not show.

On a CPU a row is worked on by one core, as PyTorch does it, and rows go to all cores:

    sort      cols log2(cols) comparisons
    top-k     cols / 2 + 1.5 min(cols, 16 k) + k log2(k): a partial sort for few, else a selection and a sort of what was selected
    cumsum    cols additions, each after the one before
    time    = comparison x steps of a row x max(rows / cores, 1)

Elsewhere they are taken to be networks without branches on the vector unit, log2(n) (log2(n) + 1) / 2 stages of n / 2 comparisons, n
being cols, or 2 k for the k largest; and log2(cols) rounds of additions. That is a guess, and its interval says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.errors import MissingFigure
from ..core.machine import Machine
from ..core.work import Array, Kernel
from ..machines.defaults import defaults
from ..machines.transfer import on_chip

if TYPE_CHECKING:
    from .kernel_times import KernelTime

SORT, TOP, SCAN = "sort", "topk", "scan"
MOVING = 2.0  # times its roofline time that a kernel takes at most whose bytes are what limits it
PARTIAL = 16.0  # values of a row per value selected, from which one comparison rules nearly all of them out
# The ends of the interval over the time, on a CPU as wide as the spread of what one core of a Xeon took, and as others differ from it.
ON_CORES, ON_NETWORK = (0.4, 2.0), (0.1, 10.0)


def _levels(count: Array) -> Array:
    return np.log2(np.maximum(count, 2.0))


def _compared(g: Mapping[str, Array]) -> Array:
    return g["cols"] * _levels(g["cols"])


def _selected(g: Mapping[str, Array]) -> Array:
    k, cols = g["per_row"], g["cols"]
    return 0.5 * cols + 1.5 * np.minimum(cols, PARTIAL * k) + k * _levels(k)


def _stages(g: Mapping[str, Array], length: Array) -> Array:
    levels = _levels(length)
    return g["cols"] / 2 * levels * (levels + 1) / 2


# Steps of a row on a core, in comparisons; and on a vector unit, in comparisons of a network.
STEPS: Mapping[str, Callable[[Mapping[str, Array]], Array]] = {
    SORT: _compared,
    TOP: _selected,
    SCAN: lambda g: g["cols"] * (defaults("ordering")["addition"] / defaults("ordering")["comparison"]),
}
NETWORKS: Mapping[str, Callable[[Mapping[str, Array]], Array]] = {
    SORT: lambda g: _stages(g, g["cols"]),
    TOP: lambda g: _stages(g, np.minimum(2 * g["per_row"], g["cols"])),
    SCAN: lambda g: g["cols"] * _levels(g["cols"]) / defaults("ordering")["operations"],
}


def ordered(kernel: Kernel) -> str:
    """Which of the three a kernel is; empty for all others."""
    if kernel.family == SCAN:
        return SCAN
    return kernel.op if kernel.family == "rows" and kernel.op in STEPS else ""


def in_steps(kernels: Iterable[KernelTime]) -> NDArray[np.bool_]:
    """Which cases run timed kernels that keep a row on chip and go over it in steps that follow each other; longer rows are sorted in
    passes over the memory, whose bytes are several times those that are counted."""
    cases: NDArray[np.bool_] = np.zeros((), dtype=np.bool_)
    for kernel in kernels:
        if ordered(kernel.kernel) and on_chip(kernel.selected.key):
            cases = cases | (np.asarray(kernel.applies) > 0)
    return cases


def steps_decide(kernels: Iterable[KernelTime], time: Array, roofline: Array) -> NDArray[np.bool_]:
    """Where such kernels take too long for their bytes to be what limits them."""
    return np.asarray(in_steps(kernels) & (np.asarray(time) > MOVING * np.asarray(roofline)))


def orders(bound: Bound) -> bool:
    """Whether a work has kernels that this is about; a GPU has timings of them."""
    return bound.machine.kind != "gpu" and any(map(ordered, bound.work.kernels))


def ordering_time(bound: Bound) -> Array:
    """Seconds of the steps that follow each other; 0 for other work."""
    if not orders(bound):
        return 0.0
    seconds: Array = 0.0
    for kernel in bound.work.kernels:
        if kind := ordered(kernel):
            seconds = seconds + _on_cpu(kernel, kind, bound.machine) + _on_network(kernel, kind, bound.machine)
    return seconds


def _on_cpu(kernel: Kernel, kind: str, machine: Machine) -> Array:
    if machine.kind != "cpu":
        return 0.0
    rounds = np.maximum(kernel.sizes["rows"] / machine.units.get("core", 1), 1.0)
    return defaults("ordering")["comparison"] * STEPS[kind](kernel.sizes) * rounds


def _on_network(kernel: Kernel, kind: str, machine: Machine) -> Array:
    if machine.kind == "cpu":
        return 0.0
    rate = vector_rate(machine, kernel.dtype)
    if rate is None:
        return 0.0
    return kernel.sizes["rows"] * NETWORKS[kind](kernel.sizes) * defaults("ordering")["operations"] / rate


def vector_rate(machine: Machine, dtype: str) -> float | None:
    """Of the vector unit in a format, else in whichever it has; None where no figure is known."""
    try:
        figure = machine.peaks[machine.engine("vector", dtype)]
    except MissingFigure:
        figures = [figure for name, figure in machine.peaks.items() if name.startswith("vector.")]
        if not figures:
            return None
        figure = figures[0]
    return figure.value()


def ordering_ends(bound: Bound) -> tuple[float, float]:
    return ON_CORES if bound.machine.kind == "cpu" else ON_NETWORK


def ordering_basis(bound: Bound) -> str:
    """What the time of such work rests on."""
    if not orders(bound):
        return ""
    if bound.machine.kind == "cpu":
        return "; a core takes as long for a comparison as one that was timed, one row at a time"
    return "; a guess: as a sorting network on the vector unit"
