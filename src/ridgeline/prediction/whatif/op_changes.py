"""Changes of the op: its dtypes, its neighbours, how much is done at once, how it is split, tiled and computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError
from ...core.units import number, percent
from ...core.work import WRITE, Work
from ...programs.ops import Op, find
from ...programs.ops.collective import all_gather, all_reduce
from .case import AFTER, BEFORE, Case, Change, Neighbour, NoEffect, tensor_of

ACCEPTANCE = 0.8  # share of drafted tokens that the large model accepts, where none is given
NORMS = ("layernorm", "rmsnorm", "batchnorm")  # run before a product by custom; other neighbours follow it
# What a device does less of when a model is split over several, and what they then have to send each other.
SPLITS: dict[str, tuple[tuple[str, ...], Op | None]] = {
    "gemm": (("n",), all_gather),
    "linear": (("out_features",), all_gather),
    "bmm": (("batch",), None),
    "attention": (("heads", "kv_heads"), None),
    "moe": (("inter",), all_reduce),
}
# Traffic an op has when everything that can stay on chip does, by the name of its parameter.
ON_CHIP: dict[str, Any] = {"traffic": "compulsory", "variant": "flash", "passes": 1, "fused": True}
TENSOR_DTYPE = {"fp32": "tf32"}  # the format closest to one that the tensor units do not take


def _whole_number(what: str, text: str) -> float:
    factor = number(text)
    if factor < 1 or factor != math.floor(factor):
        raise InputError(f"{what}={text}: must be a whole number of at least 1")
    return factor


def _op_of(case: Case, what: str) -> Op:
    if case.op is None:
        raise InputError(f"{what} needs an op with its sizes; this case has counts only")
    return case.op


def quantize(text: str) -> Change:
    part, colon, name = text.rpartition(":")
    param = {"": "dtype", "out": "out_dtype"}.get(part, part)
    row = dtype_row(name)

    def make(case: Case) -> Case:
        if case.op is None:
            if colon:
                raise InputError(f"quantize={text}: counts of work have one format; write quantize={name}")
            return replace(case, given=_requantized(case.main, row.name))
        if param not in case.op.params:
            formats = [key for key, value in case.op.params.items() if value.kind == "Format"]
            raise InputError(f"quantize={text}: {case.op.name} has no {param}; it has {', '.join(formats)}")
        if dtype_row(case.value(param)).name == row.name:
            raise NoEffect(f"{'it' if param == 'dtype' else param} is {row.name} already")
        return case.with_values(**{param: row.name})

    return Change(f"quantize {part + ' to ' if part else 'to '}{name}", make)


def _requantized(work: Work, name: str) -> Work:
    """The same counts in another format; what is stored shrinks by the width of an element."""
    if not work.dtype:
        raise InputError(f"quantize={name}: the format of {work.name or 'this work'} is not known")
    if work.dtype == name:
        raise NoEffect(f"it is {name} already")
    ratio = dtype_row(name).bytes / dtype_row(work.dtype).bytes
    narrower = work.scaled(ratio, 1.0)
    counts = {(engine, name, label): value for (engine, _, label), value in narrower.counts.items()}
    return replace(narrower, counts=counts, dtype=name, held=work.footprint * ratio)


def fuse(text: str) -> Change:
    side, _, name = text.rpartition(":")
    op = find(name)
    if side not in ("", BEFORE, AFTER):
        raise InputError(f"fuse={text}: the side is before or after, as in fuse=before:{name}")
    neighbour = Neighbour(op, side or (BEFORE if name in NORMS else AFTER))

    def prepare(case: Case) -> Case:
        return replace(case, neighbours=(*case.neighbours, neighbour))

    def make(case: Case) -> Case:
        place = case.neighbours.index(neighbour)
        fused = replace(neighbour, fused=True)
        return replace(case, neighbours=(*case.neighbours[:place], fused, *case.neighbours[place + 1 :]))

    where = "before" if neighbour.side == BEFORE else "after"
    return Change(f"fuse {name}", make, prepare, f"baseline: {name} is a separate kernel {where} it")


def _grown(case: Case, names: Sequence[str], factor: float, what: str) -> Case:
    """One size multiplied, the first of these names that the op has."""
    op = _op_of(case, what)
    name = next((each for each in names if each and each in op.params), None)
    if name is None:
        raise InputError(f"{what}: {op.name} has no batch size; write it as gemm or linear")
    old = float(case.main.shape[name])
    # more queries at the end of a sequence are more keys too
    keys = {"seq_kv": (case.value("seq_kv") or old) + old * (factor - 1)} if name == "seq_q" else {}
    return case.with_values(**{name: old * factor, **keys})


def batch(text: str) -> Change:
    factor = _whole_number("batch", text)

    def make(case: Case) -> Case:
        if case.op is None:
            grown = replace(case, given=case.main.batch(factor))
        else:
            sizes = ("batch", case.op.grows, "n", "rows") if case.op.name != "gemv" else ()
            grown = _grown(case, sizes, factor, f"batch={text}")
        return replace(grown, amount=case.amount * factor)

    return Change(f"batch x{factor:g}", make, note="times are per baseline unit of work")


def speculate(text: str) -> Change:
    drafted, _, share = text.partition(":")
    tokens = _whole_number("speculate", drafted)
    accepted = number(share) if share else ACCEPTANCE
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

    note = f"{kept:.3g} tokens per pass at {percent(accepted)} acceptance; draft time not included"
    return Change(f"speculate {tokens:g}", make, note=note)


def split(text: str) -> Change:
    ways = _whole_number("split", text)

    def make(case: Case) -> Case:
        op = _op_of(case, "split")
        if ways == 1:
            raise NoEffect("one device is the baseline")
        if op.name not in SPLITS:
            raise InputError(f"split={text}: {op.name} cannot be split; ops that can: {', '.join(SPLITS)}")
        names, send = SPLITS[op.name]
        sizes = {name: float(case.main.shape[name]) for name in names if name in case.main.shape}
        odd = [f"{name}={size:g}" for name, size in sizes.items() if size % ways]
        if odd:
            raise InputError(f"split={text}: {', '.join(odd)} of {op.name} cannot be divided by {ways:g}")
        output = float(case.main.tensor_sizes()[tensor_of(case.main, WRITE)])
        follow = () if send is None else (send(bytes=math.ceil(output), ranks=ways),)
        share = case.with_values(**{name: size / ways for name, size in sizes.items()})
        return replace(share, after=(*case.after, *follow))

    note = f"time per device on {ways:g} devices, communication included"
    return Change(f"split over {ways:g}", make, note=note)


def tile(text: str) -> Change:
    side = _whole_number("tile", text) if text else None

    def make(case: Case) -> Case:
        op = _op_of(case, "tile")
        if side is not None:
            if "traffic" not in op.params:
                raise InputError(f"tile={text}: {op.name} has no tiles of a chosen size; write tile alone")
            return case.with_values(traffic="tiled", tile=side)
        options = {name: best for name, best in ON_CHIP.items() if name in op.params}
        if not options:
            raise NoEffect(f"{op.name} reads and writes each element once")
        if all(case.value(name) == best for name, best in options.items()):
            raise NoEffect("main-memory traffic is compulsory already")
        return case.with_values(**options, **({"tile": None} if "traffic" in options else {}))

    return Change(f"tile {text or 'perfectly'}", make)


def tensor_units(text: str) -> Change:
    wanted = dtype_row(text).name if text else None

    def make(case: Case) -> Case:
        op = _op_of(case, "tensor")
        products = [dtype for engine, dtype in case.main.by_engine() if engine == "matrix"]
        if not products:
            raise NoEffect(f"{op.name} has no matrix product for tensor units")
        options = {key: value for key, value in case.options.items() if not (key == "engine" and value == "vector")}
        freed = replace(case, options=options)
        name = wanted or products[0]
        if wanted is None and not case.machine.engine("matrix", name).startswith("tensor"):
            name = TENSOR_DTYPE.get(name, name)
        if not case.machine.engine("matrix", name).startswith("tensor"):
            raise NoEffect(f"{case.machine.name} has no tensor units for {name}")
        if name == products[0] and options == case.options:
            raise NoEffect(f"{name} runs on the tensor units already")
        return freed if name == products[0] else freed.with_values(dtype=name)

    return Change(f"tensor units {text}".rstrip(), make)
