"""The changes there are, by name, and chains of them from text; those of the machine, of launching, and declared effects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import InputError, unknown
from ...core.figure import Figure
from ...core.units import number, percent
from ...core.units import parse as quantity
from ...machines import load as machines
from ..host import graph_node_share, launch_latency
from . import op_changes
from .case import Case, Change, NoEffect


def _factor(what: str, text: str) -> float:
    factor = number(text.removeprefix("x"))
    if not 0 < factor < math.inf:
        raise InputError(f"{what}={text}: must be a factor above 0, such as 2 or 0.5")
    return factor


def _launch(case: Case) -> float:
    """Seconds a launch takes in the case's own prediction."""
    given = case.options.get("launch")
    if given is not None:
        return float(given)
    fitted = [kernel.coefficients["launch"] for expected in case.predict().expected for kernel in expected.kernels]
    return sum(fitted) / len(fitted) if fitted else launch_latency(case.machine)


def _timed(case: Case) -> bool:
    """Whether the times are those of kernels from their start to their end, with no launch that the caller gives."""
    return case.options.get("launch") is None and all(expected.kernels for expected in case.predict().expected)


def graph(text: str) -> Change:
    """A captured graph, replayed.

    A kernel takes as long in it as launched by itself: in recorded traces of an H200 (tests/fixtures/torch) elementwise kernels of
    one to sixteen blocks take 0.9 to 1.1 us both ways, and only the gaps before them fall from 1 us and more to 0.1. So what was timed
    from start to end stays, and a graph takes away the wait for the host. A launch latency, which is all that is known where nothing
    was timed, is that of kernels queued one after the other with their gaps; there it becomes that of a node, 0.46 of it.
    """
    given = quantity(text, "s") if text else None
    if given is not None and given < 0:
        raise InputError(f"graph={text}: the time of a graph node is zero or more, such as graph=1us")

    def make(case: Case) -> Case:
        if case.captured:
            raise NoEffect("it is a graph already")
        if given is None and _timed(case):
            return replace(case, captured=True)
        queued, now = launch_latency(case.machine), _launch(case)
        node = graph_node_share(case.machine) * queued if given is None else given
        # a fitted launch contains more than queueing: the time given for a node is set against the queueing alone
        left = node if case.options.get("launch") is not None else max(now - max(queued - node, 0.0), 0.0)
        if left >= now:
            raise NoEffect("a launch costs no more than a graph node" if now else "the launch overhead is zero")
        return replace(case.with_options(launch=left), captured=True)

    return Change("capture a graph", make)


def overhead(text: str) -> Change:
    if text:
        raise InputError(f"overhead={text}: takes no value; it removes the launch overhead")

    def make(case: Case) -> Case:
        if not _launch(case):
            raise NoEffect("the launch overhead is zero")
        return case.with_options(launch=0.0)

    return Change("remove launch overhead", make)


def machine(text: str) -> Change:
    other = machines.load(text)

    def make(case: Case) -> Case:
        if other == case.machine:
            raise NoEffect(f"it is {other.name} already")
        return replace(case, machine=other, tuned_on=None)

    return Change(f"on {other.name}", make)


def _times(figure: Figure, factor: float) -> Figure:
    values = {kind: getattr(figure, kind) for kind in ("stated", "derived", "measured", "sustained")}
    return replace(figure, **{kind: value * factor for kind, value in values.items() if value is not None})


def _faster(case: Case, what: str, factor: float, **figures: Any) -> Case:
    """The case on a machine with other figures, with the change in its name and title.

    What formulas fitted to this machine say of one far from it is worth little, so kernels keep their share of roofline.
    """
    if factor == 1:
        raise NoEffect("a factor of 1 changes nothing")
    machine, what = case.machine, f"{what} x{factor:g}"
    title = f"{machine.title or machine.name}, {what}"
    changed = replace(machine, name=f"{machine.name} {what}", title=title, **figures)
    return replace(case, machine=changed, tuned_on=case.tuned_on or machine)


def bandwidth(text: str) -> Change:
    factor = _factor("bandwidth", text)

    def make(case: Case) -> Case:
        outer = case.machine.main
        mixes = {name: _times(figure, factor) for name, figure in outer.mixes.items()}
        faster = replace(outer, bandwidth=_times(outer.bandwidth, factor), mixes=mixes)
        return _faster(case, "bandwidth", factor, levels=(*case.machine.levels[:-1], faster))

    return Change(f"bandwidth x{factor:g}", make)


def compute(text: str) -> Change:
    factor = _factor("compute", text)

    def make(case: Case) -> Case:
        peaks = {name: _times(figure, factor) for name, figure in case.machine.peaks.items()}
        return _faster(case, "compute", factor, peaks=peaks)

    return Change(f"compute x{factor:g}", make)


def traffic(text: str) -> Change:
    factor = _factor("bytes", text)
    return Change(f"bytes x{factor:g}", lambda case: replace(case, traffic=case.traffic * factor))


def arithmetic(text: str) -> Change:
    factor = _factor("flops", text)
    return Change(f"flops x{factor:g}", lambda case: replace(case, arithmetic=case.arithmetic * factor))


def efficiency(text: str) -> Change:
    share = number(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0 < share <= 1:
        raise InputError(f"efficiency={text}: a share of the ceilings must be in (0, 1], such as 0.8")
    return Change(f"efficiency {percent(share)}", lambda case: case.with_options(efficiency=share))


# -- by name --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeKind:
    """A change as it is asked for: `usage` with its value, what it does, and the function that makes it of the value."""

    usage: str
    does: str
    change: Callable[[str], Change]

    @property
    def name(self) -> str:
        return self.usage.partition("=")[0].removesuffix("[")

    @property
    def needs_value(self) -> bool:
        return self.usage.startswith(f"{self.name}=")


KINDS = (
    ChangeKind(
        "quantize=[weights:|kv:|out:]FORMAT",
        "another number format: of everything, or of stored tensors",
        op_changes.quantize,
    ),
    ChangeKind(
        "fuse=[before:|after:]OP",
        "fuse the op before or after: the tensor between stays on chip",
        op_changes.fuse,
    ),
    ChangeKind("batch=N", "N times the batch; times are per unit", op_changes.batch),
    ChangeKind("speculate=K[:SHARE]", "verify K drafted tokens in one pass", op_changes.speculate),
    ChangeKind("split=N", "tensor parallelism over N devices, communication included", op_changes.split),
    ChangeKind("tile[=SIDE]", "square tiles of SIDE, or all intermediates on chip", op_changes.tile),
    ChangeKind("tensor[=FORMAT]", "matrix products on tensor units instead of vector units", op_changes.tensor_units),
    ChangeKind("graph[=TIME]", "a captured graph: graph nodes instead of launches", graph),
    ChangeKind("overhead", "no launch latency", overhead),
    ChangeKind("machine=NAME", "another machine", machine),
    ChangeKind("bandwidth=F", "main-memory bandwidth x F, kernels at the same share of roofline", bandwidth),
    ChangeKind("compute=F", "every peak x F, kernels at the same share of roofline", compute),
    ChangeKind("bytes=F", "declared effect: traffic x F", traffic),
    ChangeKind("flops=F", "declared effect: flops x F", arithmetic),
    ChangeKind("efficiency=SHARE", "declared effect: this share of every ceiling", efficiency),
)
CHANGES = {kind.name: kind for kind in KINDS}


def parse(text: str) -> list[Change]:
    """A chain from text: `quantize=fp8,batch=8,machine=b200-sxm`."""
    changes = []
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not name and not equals:
            continue
        if name not in CHANGES:
            raise unknown("change", name, CHANGES, f"Write {', '.join(kind.usage for kind in CHANGES.values())}.")
        if not value and (equals or CHANGES[name].needs_value):
            raise InputError(f"'{word.strip()}': {name} needs a value; write {CHANGES[name].usage}")
        changes.append(CHANGES[name].change(value))
    if not changes:
        raise InputError("no change is named; write one or a chain, such as quantize=fp8,batch=8")
    return changes
