"""The changes there are: each makes another case of a case, or says why it finds nothing to change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError, unknown
from ...core.machine import Figure, Machine
from ...core.units import number
from ...core.units import parse as quantity
from ...core.work import WRITE, Work
from ...machines import load as machines
from ...programs.ops import Op, all_gather, all_reduce, find
from ..compare import common_kind
from ..host import graph_node_share, launch_latency
from .case import AFTER, BEFORE, Case, Neighbour, scaled, tensor_of

ACCEPTED = 0.8  # share of drafted tokens that the large model takes over, where none is given
NORMS = ("layernorm", "rmsnorm", "batchnorm")  # what stands before a product by custom; other neighbours follow it
# What a device does less of when a model is split over several, and what they then have to send each other.
SPLITS: dict[str, tuple[tuple[str, ...], Op | None]] = {
    "gemm": (("n",), all_gather),
    "linear": (("out_features",), all_gather),
    "bmm": (("batch",), None),
    "attention": (("heads", "kv_heads"), None),
    "moe": (("inter",), all_reduce),
}
# Traffic an op has when everything that can stay on chip does, by the name of its parameter.
KEPT: dict[str, Any] = {"traffic": "compulsory", "variant": "flash", "passes": 1, "fused": True}
ON_TENSOR = {"fp32": "tf32"}  # the format closest to one that the tensor units do not take


class Idle(Exception):
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
class Kind:
    """A change as it is asked for: `usage` with its value, what it does, who makes it of the value."""

    usage: str
    does: str
    change: Callable[[str], Change]
    bare: bool = False  # means something without a value


def _op_of(case: Case, what: str) -> Op:
    if case.op is None:
        raise InputError(f"{what} needs an op with its sizes; this case is a bare count of work")
    return case.op


def _quantize(text: str) -> Change:
    part, colon, name = text.rpartition(":")
    param = {"": "dtype", "out": "out_dtype"}.get(part, part)
    row = dtype_row(name)

    def make(case: Case) -> Case:
        if case.op is None:
            if colon:
                raise InputError(f"quantize={text}: a bare count of work has one format; write quantize={name}")
            return replace(case, given=_requantized(case.main, row.name))
        if param not in case.op.params:
            formats = [key for key, value in case.op.params.items() if value.kind == "Format"]
            raise InputError(f"quantize={text}: {case.op.name} has no {param}; it has {', '.join(formats)}")
        if dtype_row(case.value(param)).name == row.name:
            raise Idle(f"{'it' if param == 'dtype' else param} is {row.name} already")
        return case.with_values(**{param: row.name})

    return Change(f"quantize {part + ' to ' if part else 'to '}{name}", make)


def _requantized(work: Work, name: str) -> Work:
    """The same counts in another format; what is stored shrinks by the width of an element."""
    if not work.dtype:
        raise InputError(f"quantize={name}: the format of {work.name or 'this work'} is not known")
    if work.dtype == name:
        raise Idle(f"it is {name} already")
    ratio = dtype_row(name).bytes / dtype_row(work.dtype).bytes
    narrower = scaled(work, ratio, 1.0)
    counts = {(engine, name, label): value for (engine, _, label), value in narrower.counts.items()}
    return replace(narrower, counts=counts, dtype=name, held=work.footprint * ratio)


def _fuse(text: str) -> Change:
    side, _, name = text.rpartition(":")
    op = find(name)
    if side not in ("", BEFORE, AFTER):
        raise InputError(f"fuse={text}: the side is before or after, as in fuse=before:{name}")
    beside = Neighbour(op, side or (BEFORE if name in NORMS else AFTER))

    def prepare(case: Case) -> Case:
        return replace(case, neighbours=(*case.neighbours, beside))

    def make(case: Case) -> Case:
        place = case.neighbours.index(beside)
        fused = replace(beside, fused=True)
        return replace(case, neighbours=(*case.neighbours[:place], fused, *case.neighbours[place + 1 :]))

    where = "before it" if beside.side == BEFORE else "after it"
    return Change(f"fuse {name}", make, prepare, f"the baseline runs {name} {where} as a kernel of its own")


def _whole(what: str, text: str) -> float:
    factor = number(text)
    if factor < 1 or factor != math.floor(factor):
        raise InputError(f"{what}={text}: must be a whole number of at least 1")
    return factor


def _factor(what: str, text: str) -> float:
    factor = number(text.removeprefix("x"))
    if not 0 < factor < math.inf:
        raise InputError(f"{what}={text}: must be a factor above 0, such as 2 or 0.5")
    return factor


def _grown(case: Case, names: Sequence[str], factor: float, what: str) -> Case:
    """One size multiplied, the first of these names that the op has."""
    op = _op_of(case, what)
    name = next((each for each in names if each and each in op.params), None)
    if name is None:
        raise InputError(f"{what}: {op.name} has no size that stands for a batch; write it as gemm or linear")
    old = float(case.main.shape[name])
    # more queries at the end of a sequence are more keys too
    keys = {"seq_kv": (case.value("seq_kv") or old) + old * (factor - 1)} if name == "seq_q" else {}
    return case.with_values(**{name: old * factor, **keys})


def _batch(text: str) -> Change:
    factor = _whole("batch", text)

    def make(case: Case) -> Case:
        if case.op is None:
            grown = replace(case, given=case.main.batch(factor))
        else:
            grown = _grown(
                case, ("batch", case.op.grows, "n", "rows") if case.op.name != "gemv" else (), factor, f"batch={text}"
            )
        return replace(grown, amount=case.amount * factor)

    return Change(f"batch x{factor:g}", make, note="times are per unit of the baseline's work")


def _speculate(text: str) -> Change:
    drafted, _, share = text.partition(":")
    tokens = _whole("speculate", drafted)
    accepted = number(share) if share else ACCEPTED
    if not 0 <= accepted < 1:
        raise InputError(
            f"speculate={text}: the share of accepted tokens lies from 0 to below 1, as in speculate=4:0.8"
        )
    # one token always comes out; each further one only while all before it were accepted
    kept = (1 - accepted ** (tokens + 1)) / (1 - accepted)

    def make(case: Case) -> Case:
        op = _op_of(case, "speculate")
        grown = _grown(case, ("seq_q", "tokens", op.grows), tokens + 1, f"speculate={text}")
        return replace(grown, amount=case.amount * kept)

    return Change(
        f"speculate {tokens:g}",
        make,
        note=f"{kept:.3g} tokens a pass at {accepted:.0%} accepted; the time of the draft is not in it",
    )


def _split(text: str) -> Change:
    ways = _whole("split", text)

    def make(case: Case) -> Case:
        op = _op_of(case, "split")
        if ways == 1:
            raise Idle("one device is what it has")
        if op.name not in SPLITS:
            raise InputError(f"split={text}: how to split {op.name} is not known; known are {', '.join(SPLITS)}")
        names, send = SPLITS[op.name]
        sizes = {name: float(case.main.shape[name]) for name in names if name in case.main.shape}
        odd = [f"{name}={size:g}" for name, size in sizes.items() if size % ways]
        if odd:
            raise InputError(f"split={text}: {', '.join(odd)} of {op.name} cannot be divided by {ways:g}")
        whole = case.main.tensor_sizes()[tensor_of(case.main, WRITE)]
        follow = () if send is None else (send(bytes=math.ceil(float(whole)), ranks=ways),)
        return replace(
            case.with_values(**{name: size / ways for name, size in sizes.items()}), after=(*case.after, *follow)
        )

    return Change(
        f"split over {ways:g}", make, note=f"the time of one of {ways:g} devices, with what they send each other"
    )


def _tile(text: str) -> Change:
    side = _whole("tile", text) if text else None

    def make(case: Case) -> Case:
        op = _op_of(case, "tile")
        if side is not None:
            if "traffic" not in op.params:
                raise InputError(f"tile={text}: {op.name} has no tiles of a chosen size; write tile alone")
            return case.with_values(traffic="tiled", tile=side)
        found = {name: best for name, best in KEPT.items() if name in op.params}
        if not found:
            raise Idle(f"{op.name} reads and writes everything once")
        if all(case.value(name) == best for name, best in found.items()):
            raise Idle("everything crosses the main memory once already")
        return case.with_values(**found, **({"tile": None} if "traffic" in found else {}))

    return Change(f"tile {text}".strip() if text else "tile perfectly", make)


def _tensor_units(text: str) -> Change:
    wanted = dtype_row(text).name if text else None

    def make(case: Case) -> Case:
        op = _op_of(case, "tensor")
        products = [dtype for engine, dtype in case.main.by_engine() if engine == "matrix"]
        if not products:
            raise Idle(f"{op.name} has no matrix product, which is all that tensor units do")
        options = {key: value for key, value in case.options.items() if not (key == "engine" and value == "vector")}
        freed = replace(case, options=options)
        name = wanted or products[0]
        if wanted is None and not case.machine.engine("matrix", name).startswith("tensor"):
            name = ON_TENSOR.get(name, name)
        if not case.machine.engine("matrix", name).startswith("tensor"):
            raise Idle(f"{case.machine.name} has no tensor units for {name}")
        if name == products[0] and options == case.options:
            raise Idle(f"{name} runs on the tensor units already")
        return freed if name == products[0] else freed.with_values(dtype=name)

    return Change(f"tensor units {text}".rstrip(), make)


def _launch(case: Case) -> float:
    """Seconds a launch takes in the case's own prediction."""
    made = case.predict()
    own = [kernel.launch for item in made.expected for kernel in item.kernels]
    asked = case.options.get("launch")
    if asked is not None:
        return float(asked)
    return sum(own) / len(own) if own else launch_latency(case.machine)


def _graph(text: str) -> Change:
    given = quantity(text, "s") if text else None
    if given is not None and given < 0:
        raise InputError(f"graph={text}: a node of a graph takes zero or more seconds, such as graph=1us")

    def make(case: Case) -> Case:
        queued, now = launch_latency(case.machine), _launch(case)
        node = graph_node_share() * queued if given is None else given
        # a fitted launch holds more than the queue: only what a graph saves of the queue goes
        left = node if case.options.get("launch") is not None else max(now - max(queued - node, 0.0), 0.0)
        if case.captured or left >= now:
            why = "a launch costs no more than a node of a graph" if now else "launches cost nothing here"
            raise Idle("it is a graph already" if case.captured else why)
        return replace(case.with_options(launch=left), captured=True)

    return Change("capture a graph", make)


def _overhead(text: str) -> Change:
    if text:
        raise InputError(f"overhead={text}: takes no value; it takes every launch away")

    def make(case: Case) -> Case:
        if not _launch(case):
            raise Idle("launches cost nothing here")
        return case.with_options(launch=0.0)

    return Change("remove launch overhead", make)


def _machine(text: str) -> Change:
    other = machines.load(text)

    def prepare(case: Case) -> Case:
        if case.options.get("ceilings") is not None:
            return case
        # like is held against like: a measured machine must not look slower than a datasheet
        return case.with_options(ceilings=common_kind([case.machine, other], case.main.dtype or None))

    def make(case: Case) -> Case:
        if other == case.machine:
            raise Idle(f"it is {other.name} already")
        return replace(case, machine=other)

    return Change(f"on {other.name}", make, prepare)


def _times(figure: Figure, factor: float) -> Figure:
    values = {kind: getattr(figure, kind) for kind in ("stated", "derived", "measured", "sustained")}
    return replace(figure, **{kind: value * factor for kind, value in values.items() if value is not None})


def _renamed(machine: Machine, what: str, **figures: Any) -> Machine:
    """A machine with other figures, which its name and title tell."""
    title = f"{machine.title or machine.name}, {what}"
    return replace(machine, name=f"{machine.name} {what}", title=title, **figures)


def _bandwidth(text: str) -> Change:
    factor = _factor("bandwidth", text)

    def make(case: Case) -> Case:
        if factor == 1:
            raise Idle("a factor of 1 changes nothing")
        outer = case.machine.main
        mixes = {name: _times(figure, factor) for name, figure in outer.mixes.items()}
        faster = replace(outer, bandwidth=_times(outer.bandwidth, factor), mixes=mixes)
        return replace(
            case, machine=_renamed(case.machine, f"bandwidth x{factor:g}", levels=(*case.machine.levels[:-1], faster))
        )

    return Change(f"bandwidth x{factor:g}", make)


def _compute(text: str) -> Change:
    factor = _factor("compute", text)

    def make(case: Case) -> Case:
        if factor == 1:
            raise Idle("a factor of 1 changes nothing")
        peaks = {name: _times(figure, factor) for name, figure in case.machine.peaks.items()}
        return replace(case, machine=_renamed(case.machine, f"compute x{factor:g}", peaks=peaks))

    return Change(f"compute x{factor:g}", make)


def _bytes(text: str) -> Change:
    factor = _factor("bytes", text)
    return Change(f"bytes x{factor:g}", lambda case: replace(case, traffic=case.traffic * factor))


def _flops(text: str) -> Change:
    factor = _factor("flops", text)
    return Change(f"flops x{factor:g}", lambda case: replace(case, arithmetic=case.arithmetic * factor))


def _efficiency(text: str) -> Change:
    share = number(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0 < share <= 1:
        raise InputError(f"efficiency={text}: a share of the ceilings lies in (0, 1], such as 0.8")
    return Change(f"efficiency {share:.0%}", lambda case: case.with_options(efficiency=share))


CHANGES: dict[str, Kind] = {
    "quantize": Kind(
        "quantize=[weights:|kv:|out:]FORMAT", "another number format, of everything or of what is stored", _quantize
    ),
    "fuse": Kind(
        "fuse=[before:|after:]OP", "a neighbour into the kernel: the tensor between is neither written nor read", _fuse
    ),
    "batch": Kind("batch=N", "N times as much at once; times are per unit", _batch),
    "speculate": Kind("speculate=K[:SHARE]", "verify K drafted tokens in one pass", _speculate),
    "split": Kind("split=N", "the op over N devices, with what they send each other", _split),
    "tile": Kind("tile[=SIDE]", "square tiles of a side, or everything kept on chip that can be", _tile, True),
    "tensor": Kind("tensor[=FORMAT]", "matrix products from the vector to the tensor units", _tensor_units, True),
    "graph": Kind("graph[=TIME]", "a captured graph: a launch costs what a node costs", _graph, True),
    "overhead": Kind("overhead", "no launch latency at all: what remains is the kernel", _overhead, True),
    "machine": Kind("machine=NAME", "another machine", _machine),
    "bandwidth": Kind("bandwidth=F", "main memory F times as fast", _bandwidth),
    "compute": Kind("compute=F", "every peak F times as high", _compute),
    "bytes": Kind("bytes=F", "a declared effect: F times the traffic", _bytes),
    "flops": Kind("flops=F", "a declared effect: F times the arithmetic", _flops),
    "efficiency": Kind("efficiency=SHARE", "a declared effect: this share of every ceiling is reached", _efficiency),
}


def parse(text: str) -> list[Change]:
    """A chain from text: `quantize=fp8,batch=8,machine=b200-sxm`."""
    found = []
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not name and not equals:
            continue
        if name not in CHANGES:
            raise unknown("change", name, CHANGES, f"Write {', '.join(kind.usage for kind in CHANGES.values())}.")
        if not value and (equals or not CHANGES[name].bare):
            raise InputError(f"'{word.strip()}': {name} needs a value; write {CHANGES[name].usage}")
        found.append(CHANGES[name].change(value))
    if not found:
        raise InputError("no change is named; write one or a chain, such as quantize=fp8,batch=8")
    return found
