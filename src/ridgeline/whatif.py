"""What a change would bring: a case, a chain of named changes, the stops on the way and the arrow of each.

A Case is an op call (or bare Work) on a machine. A Change makes another Case of it. `apply` prices a chain:

    time_after = time_before x T_after / T_before      T rests on the same kind of formula on both sides
    program    = 1 / (1 - share + share / ratio)       what the change brings where the kernel is a share of the time

Where a change does more work at once (a batch), times are compared per unit of the baseline's work. Which way an arrow
points follows from the counts and the times, never from the name of the change.

Times are times on the device. What it waits for the host that sends kernel by kernel stands beside them (`waiting`), from
the machine's own figure; a captured graph takes it away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from . import machines, timing
from .compare import common_kind
from .dtypes import dtype as dtype_row
from .dtypes import result
from .errors import InputError, MissingFigure, unknown
from .gap import NODE, waiting
from .machine import MAIN, Figure, Machine
from .ops import Op, all_gather, all_reduce, find
from .prediction import Prediction, predict
from .units import number, show
from .units import parse as quantity
from .work import READ, WRITE, Program, Step, Work

BEFORE, AFTER = "before", "after"
FIRST = "baseline"
NOTHING = 0.005  # relative change of the time that is called none
STILL = 0.01  # and of a coordinate on the chart
ACCEPTED = 0.8  # share of drafted tokens that the large model takes over, where none is given
NORMS = ("layernorm", "rmsnorm", "batchnorm")  # what stands before a product by custom; other neighbours follow it
# Columns of the tensor that enters an op and of the one that leaves it, by the name of the size; else `cols`.
EDGES = {
    "gemm": {BEFORE: "k", AFTER: "n"},
    "bmm": {BEFORE: "k", AFTER: "n"},
    "linear": {BEFORE: "in_features", AFTER: "out_features"},
    "attention": {BEFORE: "head_dim", AFTER: "head_dim"},
    "moe": {BEFORE: "hidden", AFTER: "hidden"},
}
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


@dataclass(frozen=True)
class Neighbour:
    """The op that makes what a kernel reads, or reads what it makes; it runs in any case, apart or in the kernel."""

    op: Op
    side: str
    fused: bool = False


@dataclass(frozen=True)
class Case:
    """What is priced: an op and its values (or a Work), a machine, options of `predict`; `amount` in baselines."""

    machine: Machine
    op: Op | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    given: Work | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    neighbours: tuple[Neighbour, ...] = ()
    after: tuple[Work, ...] = ()  # steps of their own that follow, such as a collective
    amount: float = 1.0
    traffic: float = 1.0  # factors of a declared effect
    arithmetic: float = 1.0
    captured: bool = False  # sent as a graph, not one by one

    def __post_init__(self) -> None:
        if (self.op is None) == (self.given is None):
            raise InputError("a what-if starts from an op with its sizes, or from one Work")
        work = self.main
        if any(np.ndim(value) for value in (*work.shape.values(), work.flops, work.bytes)):
            raise InputError(
                f"a what-if prices one case; {work.name or 'this work'} has an axis of sizes, give one value"
            )

    @cached_property
    def main(self) -> Work:
        return self.op(**self.values) if self.op is not None else self.given or Work()

    def value(self, name: str) -> Any:
        """A parameter of the op as it stands: given, its default, or for storage formats that of the arithmetic."""
        assert self.op is not None
        found = self.values.get(name)
        found = self.op.params[name].default if found is None else found
        if found is None and name == "out_dtype":
            return result(self.value("dtype")).name
        return self.value("dtype") if found is None and name in ("weights", "kv") else found

    def with_values(self, **values: Any) -> Case:
        return replace(self, values={**self.values, **values})

    def with_options(self, **options: Any) -> Case:
        return replace(self, options={**self.options, **options})

    # -- neighbours ---------------------------------------------------------------------------------------

    def _edge(self, side: str) -> tuple[float, float | None, str]:
        """Elements, columns (None where not known) and format of the tensor at a side of the main kernel."""
        work = self.main
        tensor = _tensor(work, READ if side == BEFORE else WRITE)
        dtype = work.dtype
        if side == AFTER and self.op is not None:
            own = self.values.get("out_dtype") or (
                "out_dtype" in self.op.params and self.op.params["out_dtype"].default
            )
            product = work.family == "gemv" or any(engine == "matrix" for engine, _ in work.by_engine())
            dtype = own or (result(dtype).name if product else dtype)
        elements = float(work.tensor_sizes()[tensor]) / dtype_row(dtype).bytes
        columns = work.shape.get(EDGES.get(work.name, {}).get(side, "cols"))
        return elements, None if columns is None else float(columns), dtype

    def _beside(self, neighbour: Neighbour) -> Work:
        """The neighbour's work on the tensor between."""
        elements, columns, dtype = self._edge(neighbour.side)
        params = neighbour.op.params
        needed = {name for name, param in params.items() if param.required}
        whole = (
            elements.is_integer()
        )  # a tensor of mixed formats, such as indices beside values, is not known by its bytes
        if needed == {"n"} and whole:
            values: dict[str, Any] = {"n": elements}
        elif needed == {"rows", "cols"} and columns is not None and (elements / columns).is_integer():
            values = {"rows": elements / columns, "cols": columns}
        else:
            raise InputError(
                f"fuse={neighbour.op.name}: its sizes do not follow from {self.main.name}; "
                "a neighbour is elementwise, or goes over rows where the op has rows and columns"
            )
        if "dtype" in params:
            wide = result(dtype).name if neighbour.side == BEFORE else dtype
            values["dtype"] = wide
            if "out_dtype" in params and neighbour.side == BEFORE and wide != dtype:
                values["out_dtype"] = dtype
        return neighbour.op(**values)

    @cached_property
    def program(self) -> Program:
        """The kernels in order: neighbours apart or in the main one, then what follows."""
        works: list[Work] = [self.main]
        place = 0
        for neighbour in self.neighbours:
            other = self._beside(neighbour)
            if neighbour.fused:
                first, then = (other, works[place]) if neighbour.side == BEFORE else (works[place], other)
                works[place] = _fused(first, then)
            elif neighbour.side == BEFORE:
                works.insert(0, other)
                place += 1
            else:
                works.append(other)
        if self.traffic != 1.0 or self.arithmetic != 1.0:
            works[place] = _scaled(works[place], self.traffic, self.arithmetic)
        return Program(
            tuple(Step(work.name, work) for work in (*works, *self.after)), " + ".join(work.name for work in works)
        )

    def predict(self) -> Prediction:
        return predict(self.program, self.machine, **self.options)


def _tensor(work: Work, way: str) -> str:
    """The activation that enters or the result that leaves: the first one read, the first one the last kernel writes."""
    found = [tensor for level, tensor, direction in work.moves if direction == way and level == MAIN]
    if not found:
        verb = "read" if way == READ else "written"
        raise InputError(f"{work.name or 'this work'} has no tensor that is {verb}, so nothing can be fused through it")
    return next((tensor for tensor in found if way == WRITE and tensor.startswith("2.")), found[0])


def _fused(first: Work, then: Work) -> Work:
    """Two kernels as one, through what the first leaves and the second takes; their tensors go by `1.` and `2.`."""
    one, two = (replace(work.rename(place), name=work.name) for place, work in (("1", first), ("2", then)))
    return one.fuse(two, f"1.{_tensor(first, WRITE)}", f"2.{_tensor(then, READ)}")


def _scaled(work: Work, traffic: float, arithmetic: float) -> Work:
    return replace(
        work,
        counts={key: value * arithmetic for key, value in work.counts.items()},
        moves={key: value * traffic for key, value in work.moves.items()},
        special=work.special * arithmetic,
        held=work.footprint,
        formulas={},
        kernels=(),
    )


# -- changes --------------------------------------------------------------------------------------------------


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
    scaled = _scaled(work, ratio, 1.0)
    counts = {(engine, name, label): value for (engine, _, label), value in scaled.counts.items()}
    return replace(scaled, counts=counts, dtype=name, held=work.footprint * ratio)


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
        whole = case.main.tensor_sizes()[_tensor(case.main, WRITE)]
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
    own = [part.launch for item in made.expected for part in item.parts or ()]
    asked = case.options.get("launch")
    if asked is not None:
        return float(asked)
    return sum(own) / len(own) if own else timing.launch_latency(case.machine)


def _graph(text: str) -> Change:
    given = quantity(text, "s") if text else None
    if given is not None and given < 0:
        raise InputError(f"graph={text}: a node of a graph takes zero or more seconds, such as graph=1us")

    def make(case: Case) -> Case:
        queued, now = timing.launch_latency(case.machine), _launch(case)
        node = NODE * queued if given is None else given
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


# -- stops ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stop:
    """One place on the way: a case, its prediction, its time, and what the step to it brought."""

    name: str
    case: Case
    prediction: Prediction
    time: float  # seconds of the whole case
    before: Stop | None = None
    first: Stop | None = None
    why: str = ""  # why nothing changed, where nothing did
    notes: tuple[str, ...] = ()

    @property
    def unit_time(self) -> float:
        """Seconds per unit of the baseline's work."""
        return self.time / self.case.amount

    @property
    def gain(self) -> float:
        """Seconds per unit that the step before this stop saves."""
        return 0.0 if self.before is None else self.before.unit_time - self.unit_time

    @property
    def ratio(self) -> float:
        return 1.0 if self.before is None else self.before.unit_time / self.unit_time

    @property
    def total_gain(self) -> float:
        return 0.0 if self.first is None else self.first.unit_time - self.unit_time

    @property
    def total_ratio(self) -> float:
        return 1.0 if self.first is None else self.first.unit_time / self.unit_time

    @property
    def waiting(self) -> float | None:
        """Seconds per unit that the device waits for the host, beside the time; None where no figure says what it takes.

        Sent one by one: max(launches x dispatch - time, 0). In a graph: 0.
        """
        if self.case.captured:
            return 0.0
        each = self.case.machine.dispatch.value()
        steps = self.prediction.steps
        launches = sum(float(step.work.waits.get("launch", 0.0)) * step.count for step in steps)
        return None if each is None else waiting(launches, each, self.time) / self.case.amount

    @property
    def low(self) -> float:
        return max(self.floor, self.time * float(self.prediction.low / self.prediction.time))

    @property
    def high(self) -> float:
        return self.time * float(self.prediction.high / self.prediction.time)

    @property
    def floor(self) -> float:
        return float(self.prediction.floor)

    @property
    def flops(self) -> float:
        return sum(float(step.work.flops) * step.count for step in self.prediction.steps)

    @property
    def bytes(self) -> float:
        """At the main memory; what crosses a link is not on the chart."""
        return sum(float(step.work.bytes) * step.count for step in self.prediction.steps)

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes > 0 else None

    @property
    def rate(self) -> float:
        return self.flops / self.time

    @cached_property
    def _heaviest(self) -> int:
        times = [
            float(item.time) * step.count
            for item, step in zip(self.prediction.expected, self.prediction.steps, strict=True)
        ]
        return int(np.argmax(times))

    @property
    def bound(self) -> str:
        """Of the kernel that takes most of the time."""
        return str(self.prediction.bounds[self._heaviest].bound)

    @property
    def limiter(self) -> str:
        return str(self.prediction.bounds[self._heaviest].limiter)

    @property
    def engine(self) -> str:
        return str(self.prediction.bounds[self._heaviest].engine or "")

    @property
    def direction(self) -> str:
        """Where the arrow to this stop points: right, up, both, none, or the worse ones by name."""
        if (
            self.before is None
            or not self.flops
            or not self.before.flops
            or not self.intensity
            or not self.before.intensity
        ):
            return "none"
        across = _sign(self.intensity / self.before.intensity)
        rise = _sign(self.rate / self.before.rate)
        return WAYS[across, rise]

    def document(self, share: float | None = None) -> dict[str, Any]:
        found = {
            "name": self.name,
            "machine": self.case.machine.name,
            "time_us": self.time * 1e6,
            "low_us": self.low * 1e6,
            "high_us": self.high * 1e6,
            "floor_us": self.floor * 1e6,
            "units": self.case.amount,
            "unit_time_us": self.unit_time * 1e6,
            "waiting_us": None if self.waiting is None else self.waiting * 1e6,
            "gain_us": self.gain * 1e6,
            "ratio": self.ratio,
            "total_gain_us": self.total_gain * 1e6,
            "total_ratio": self.total_ratio,
            "direction": self.direction,
            "bound_before": self.before.bound if self.before else None,
            "bound": self.bound,
            "limiter": self.limiter,
            "flops": self.flops,
            "bytes": self.bytes,
            "intensity": self.intensity,
            "rate": self.rate,
            "why": self.why,
            "notes": list(self.notes),
        }
        return found if share is None else {**found, "program_ratio": amdahl(share, self.total_ratio)}


WAYS = {
    (1, 0): "right", (0, 1): "up", (1, 1): "both", (0, 0): "none", (-1, 0): "left", (0, -1): "down",
    (-1, -1): "left and down", (1, -1): "right and down", (-1, 1): "left and up",
}  # fmt: skip


def _sign(ratio: float) -> int:
    return 0 if abs(math.log(ratio)) < STILL else (1 if ratio > 1 else -1)


def apply(case: Case, changes: Iterable[Change]) -> list[Stop]:
    """The baseline and one stop per change, each applied to the case before it."""
    chain = list(changes)
    for change in chain:
        case = change.prepare(case)
    made = case.predict()
    start = Stop(FIRST, case, made, float(made.time), notes=tuple(dict.fromkeys(_missing(made))))
    stops = [start]
    for change in chain:
        stops.append(_step(stops[-1], start, change))
    return stops


def _step(before: Stop, first: Stop, change: Change) -> Stop:
    try:
        case = change.make(before.case)
        made = case.predict()
    except Idle as idle:
        return Stop(change.name, before.case, before.prediction, before.time, before, first, str(idle))
    except MissingFigure as missing:
        raise InputError(f"{change.name}: {missing}") from missing
    now, then = _like(made, before.prediction)
    time = max(before.time * (now / then), float(made.floor))
    left_out = _missing(made) if len(_missing(made)) > len(_missing(before.prediction)) else []
    notes = tuple(note for note in (change.note, *left_out) if note)
    stop = Stop(change.name, case, made, time, before, first, "", notes)
    stop = replace(stop, notes=(*notes, *_of_host(stop, before)))
    return replace(stop, why=_why(stop, before)) if abs(stop.ratio - 1) <= NOTHING else stop


def _of_host(stop: Stop, before: Stop) -> list[str]:
    """What a graph saves beside the time on the device, or that it is not known."""
    if not stop.case.captured or before.case.captured:
        return []
    machine = before.case.machine
    if before.waiting is None:
        return [
            f"what the host takes to send a kernel is not known of {machine.name}: what a graph saves of it is not priced"
        ]
    if not before.waiting:
        return []
    each = show(machine.dispatch.value() or 0.0, "s", 3)
    return [
        f"sent one by one, the device also waits {show(before.waiting, 's', 3)} for the host, which takes {each} to send a "
        "kernel; in a graph it does not"
    ]


def _missing(made: Prediction) -> list[str]:
    return [note for item in made.bounds for note in item.notes]


def _like(one: Prediction, other: Prediction) -> tuple[float, float]:
    """Times of two predictions on one footing: those of the kernel families where both have them, else the flat form of both."""
    if all(item.parts is not None for made in (one, other) for item in made.expected):
        return float(one.time), float(other.time)
    return _flat(one), _flat(other)


def _flat(made: Prediction) -> float:
    return sum(
        float(timing.expected(item, made.given, flat=True).time) * step.count
        for item, step in zip(made.bounds, made.steps, strict=True)
    )


def _why(stop: Stop, before: Stop) -> str:
    """Why a change that was made brings nothing: what sets the time is not what it touches."""
    limits = f"{before.limiter} sets the time ({before.bound}-bound)"
    if stop.limiter != before.limiter:
        return f"{limits}; without it {stop.limiter} takes as long"
    if stop.case.amount != before.case.amount:
        return f"{limits}, and every unit brings its own share of it"
    return f"{limits}, and this {'leaves it as it is' if stop.ratio == 1 else 'takes too little off it to show'}"


def amdahl(share: float, ratio: float) -> float:
    """How much faster a program gets when a share of its time gets `ratio` times as fast."""
    if not 0 <= share <= 1:
        raise InputError(f"a share of a program's time lies from 0 to 1, got {share}")
    if not ratio > 0:
        raise InputError(f"a ratio of times is above 0, got {ratio}")
    rest = 1 - share + (share / ratio if math.isfinite(ratio) else 0.0)
    return 1 / rest if rest else math.inf


def document(stops: Sequence[Stop], share: float | None = None) -> dict[str, Any]:
    """The chain as `ridgeline whatif --json` gives it; with a share of a program also what that gains, and can gain at most."""
    found: dict[str, Any] = {
        "case": stops[0].prediction.steps[0].name
        if len(stops[0].prediction.steps) == 1
        else stops[0].case.program.name,
        "stops": [stop.document(share) for stop in stops],
        "total_ratio": stops[-1].total_ratio,
        "total_gain_us": stops[-1].total_gain * 1e6,
    }
    if share is not None:
        found |= {
            "share": share,
            "program_ratio": amdahl(share, stops[-1].total_ratio),
            "program_limit": amdahl(share, math.inf),
        }
    return found
