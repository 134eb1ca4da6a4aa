"""Coefficients that serve a kernel, looked up by ever wider keys, and the machine as its formula sees it.

The machine's own coefficients come before borrowed ones; then those of the kernel's dtype, backend, variant and op
before those of other dtypes, the default path, wider variants and any op. Of ops that are built unlike others of their family, all timings
of the op come first, whatever the machine and the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ..core.dtypes import dtype as dtype_row
from ..core.dtypes import label
from ..core.dtypes import result as stored_result
from ..core.errors import MissingFigure
from ..core.families import RESIDENT, Family, Key, formula
from ..core.families.attention import WINDOW
from ..core.families.product import ADDED, BIASED
from ..core.fitted import Fitted
from ..core.machine import MAIN, Machine
from ..core.network import collectives
from ..core.work import READ, WRITE, Array, Kernel, Work, largest
from ..machines.transfer import VECTOR_PRODUCTS, adding_wider, apart, backends, library, newest
from . import doubt
from .doubt import DOUBLE, HALVES, STREAMING, alike
from .hardware import hardware

# A dtype that was never timed takes the coefficients of the next one that was.
SUBSTITUTES = {
    "fp16": ("bf16",), "bf16": ("fp16",), "tf32": ("fp32", "bf16"), "fp32": ("tf32",), "fp64": ("fp32",),
    "fp8": ("int8", "bf16"), "int8": ("fp8", "bf16"), "int4": ("int8", "fp8"), "nvfp4": ("fp8", "bf16"),
    "mxfp4": ("fp8", "bf16"), "mxfp6": ("fp8", "bf16"), "mxfp8": ("fp8", "bf16"), "int1": ("int8",), "int32": ("fp32",),
}  # fmt: skip
TIMED_HALF = "bf16"  # that other machines lend
# Families whose kernels are the same in either: timings of one serve the other before those of other kernels in its own.
SAME_HALVES = ("stream", "reduce", "gather", "rows", "scan", "transpose", "attention", "attention_backward", "decode")
# Libraries whose kernels serve where the one asked for has none for such weights or such a KV cache, by family, and formats of weights
# and caches that are unpacked alike.
SERVING = ("vllm", "sglang", "trtllm")
# Families whose kernels run on another unit in each format: timings of the format on other machines serve before those of other formats
# on this one. On an L4 products in fp32 slow down for power as those in tf32 do not.
OF_ENGINES = ("gemm", "conv")
OTHER_PATHS = {"weight_only": ("triton",), "decode": SERVING, "moe": SERVING}
UNPACKED_ALIKE = {
    "weight_only": dict.fromkeys(("fp8_e4m3", "fp8_e5m2", "mxfp8"), "int8") | dict.fromkeys(("nvfp4", "mxfp4"), "int4"),
    "decode": dict.fromkeys(("fp8_e5m2", "int8", "mxfp8", "mxfp6", "int4", "mxfp4", "nvfp4"), "fp8_e4m3"),
}
# Ops of the stream family that read and write elements in order, one by one: timings of some of them serve the others. Optimizers over
# lists of tensors, pools and losses are built otherwise, and take what other machines lend for them.
IN_ORDER = frozenset(
    {"", "add", "axpy", "cast", "copy", "exp", "fill", "gelu", "gelu_erf", "mul", "relu", "residual", "scal", "sigmoid", "silu", "tanh"}
    | {"stream_add", "stream_copy", "stream_scale", "stream_triad"}
)  # fmt: skip
BACKWARD = "_backward"
# Families whose ops are built each in its own way, but for those of the stream family that are in order: timings of an op in another
# format serve before those of other ops in its own. fp64 sorts by those of fp64 norms were expected to take a 38th of their time.
OWN_WAYS = ("stream", "rows", "scan")
CONVERTED = "converted"  # elements in order, which are built in their own way in the formats that were timed alone
ALL_OPS = ("attention", "decode", "moe", "transpose")  # families whose timings are of all their ops together
BUILT_LIKE = {WINDOW: "causal"}  # ops whose kernel is built like that of another, where it is not said
TIMED_AS = {
    WINDOW: "triton"
}  # ops that the default path has a kernel of its own for, whose coefficients are those of another path
RESULT, PRODUCTS, RESULTS_APART = "out_dtype", ("gemm", "conv"), ("sum_rows", "sum_columns")
CAST, CAST_TO = "cast", "bf16"  # and the format it casts to where none is given
# Casts that kernels were timed for, by the bits of both formats.
TIMED_CASTS = ((64, 32), (32, 16), (16, 32), (16, 16), (16, 8))
UNTIMED_FP8 = "fp8_e5m2"
UNTIMED_WAYS = {"active": None, "routing": "balanced", "write_allocate": 0.0}  # and what is usual
# What bytes take is known from the format that most machines were timed in.
STREAMED_AS = "fp32"
LABELS = CALIBRATED, TRANSFERRED, UNCALIBRATED = "calibrated", "transferred", "uncalibrated"


@dataclass(frozen=True)
class Selected:
    """The coefficients used for a kernel."""

    family: Family
    fitted: Fitted
    key: Key
    doubt: float = 0.0  # of another kernel that serves, which widens the interval
    label: str = TRANSFERRED  # calibrated where the timings are of this machine, op, backend and dtypes
    # This very kernel was timed on this machine, whatever library was asked for: in its format or the other one of 16 bits, or with
    # operands stored wider, whose timings hold for fewer bytes as well. It decides whether timings of similar shapes correct the formula.
    timed: bool = False

    def log_end(self, end: str) -> float:
        """The logarithm of an end of the interval over the time, for sizes that were timed."""
        wide = doubt.together(np.log(getattr(self.fitted, end)), self.doubt)
        return -wide if end == "low" else wide


@dataclass(frozen=True)
class Pass:
    """One look through the keys that may serve: which of them count."""

    borrowed: bool  # those of other machines, else this machine's own
    of_library: bool = False  # only those of the library that is asked for
    same_arithmetic: bool = False  # only those in the format of the kernel
    own_op: bool = False  # only those of its op


@cache
def _candidates(
    key: Key, backend: str, last_dtype: str, like: str, other_paths: tuple[str, ...], lent: bool = False
) -> tuple[tuple[Key, bool], ...]:
    """Keys to look up, best first, each with whether its dtype is another than the kernel's."""
    arithmetic, *weights = key.dtypes
    others = SUBSTITUTES.get(arithmetic, ())
    # the same weights in other arithmetic, then weights of the same width
    narrow = [f"{other}-{stored}" for other in others for stored in weights]
    unpacked = UNPACKED_ALIKE.get(key.family, {})
    narrow += [
        f"{other}-{unpacked[stored]}" for other in (arithmetic, *others) for stored in weights if stored in unpacked
    ]
    streamed = STREAMED_AS if key.family in STREAMING else ""
    dtypes = dict.fromkeys((key.dtype, *narrow, arithmetic, *others, last_dtype or streamed))
    twins = {HALVES[0]: HALVES[1], HALVES[1]: HALVES[0]} if lent or key.family in SAME_HALVES else {}
    # the timings of an op's own kernel in any format come before those of a kernel that is built alike
    paths = (*filter(None, backends(backend)), *(() if backend else (TIMED_AS[key.op],))) if key.op in TIMED_AS else ()
    own_kernel = [
        (wider._replace(dtype=dtype, backend=path), dtype != key.dtype)
        for dtype in filter(None, dtypes)
        for path in paths
        for wider in key.wider_variants()
    ]
    return *own_kernel, *(
        (wider._replace(dtype=each), each != key.dtype)
        for place, dtype in enumerate(filter(None, dtypes))
        for path in dict.fromkeys((*backends(backend), *other_paths))
        for wider in key._replace(dtype=dtype, backend=path).wider(like)
        for each in ((dtype, twins[dtype]) if place == 0 and dtype in twins else (dtype,))
    )


def timed_backend(machine: Machine, backend: str | None, family: str = "") -> str:
    """The backend as this machine was timed with it: the newest version of a library that is asked for without one.

    The default path is PyTorch, and its convolutions on NVIDIA GPUs are those of cuDNN: where this machine was timed with it, asking
    for these by their names is asking for the default path.
    """
    if backend == "torch" or (backend == "cudnn" and family == "conv" and machine.vendor == "NVIDIA"):
        own = machine.timed_backends.get(family, set())
        if "" in own and backend not in map(library, own):
            return ""
    if not backend or library(backend) != backend:
        return backend or ""
    return newest(backend, set().union(*machine.timed_backends.values()))


def select(
    machine: Machine, key: Key, backend: str | None = None, like: str = "", unusual: str = ""
) -> Selected | None:
    """The machine's coefficients for a kernel's key, None where not even a wider one has any.

    `like` is an op whose kernel is built alike: its timings serve before those of any op, and are called transferred. So are those of
    a kernel that is `unusual` in the format of its result or in how it is called, and of a product without a bias, or without the old result, for one that adds it.
    """
    like = like or BUILT_LIKE.get(key.op, "")
    last_dtype = "fp32" if machine.kind == "cpu" else ""
    asked = timed_backend(machine, backend, key.family)
    narrow = len(key.dtypes) > 1 or (key.family == "moe" and key.dtype not in HALVES)
    other_paths = tuple(timed_backend(machine, path) for path in OTHER_PATHS.get(key.family, ()) if narrow)
    for which in _passes(machine, key, asked):
        borrowed = which.borrowed
        asked_of = _on_vector_units(machine, key) if borrowed else key
        wanted = _in_timed_half(asked_of) if borrowed else key
        plain_serve = not _lends_apart(machine, wanted)
        for candidate, substitute in _candidates(wanted, asked, last_dtype, like, other_paths, borrowed):
            of_library = candidate.backend in backends(asked)[:-1] and alike(candidate.dtype, wanted.dtype)
            if (which.of_library and not of_library) or (which.own_op and candidate.op != wanted.op):
                continue
            if which.same_arithmetic and not alike(candidate.dtypes[0], wanted.dtypes[0]):
                continue
            substitute = (substitute and candidate.dtype != key.dtype) or asked_of.dtype != key.dtype
            fitted = machine.fitted.get(candidate)
            serves = plain_serve or (apart(candidate) == apart(wanted) and alike(candidate.dtype, wanted.dtype))
            if fitted is not None and fitted.borrowed is borrowed and serves:
                same_op = candidate.op == key.op or (candidate.family in ALL_OPS and not like)
                same_op = same_op or (key.op in (BIASED, ADDED) and not candidate.op)
                same_op = same_op and candidate.resident is key.resident
                own_kernel = same_op and not borrowed
                itself = (
                    own_kernel
                    and candidate.backend == asked
                    and not (unusual or machine.given_bandwidth)
                    and (candidate.op == key.op or key.op not in (BIASED, ADDED))
                )
                calibrated = itself and not substitute
                doubts = (
                    doubt.of_format(wanted if asked_of.dtype == key.dtype else key, candidate),
                    0.0 if itself else _of_kernel(machine, key, candidate, asked, borrowed),
                    doubt.VENDOR if borrowed and machine.vendor != doubt.LENDER_VENDOR else 0.0,
                )
                return Selected(
                    formula(candidate, machine.kind),
                    _narrowed(machine, adding_wider(machine, fitted, candidate, key), candidate, key),
                    candidate,
                    doubt.together(*doubts),
                    label=CALIBRATED if calibrated else TRANSFERRED,
                    timed=own_kernel
                    and not _stands_in(key, candidate, asked)
                    and any(alike(candidate.dtype, dtype) for dtype in (key.dtype, key.dtypes[0])),
                )
    return None


def _narrowed(machine: Machine, fitted: Fitted, candidate: Key, key: Key) -> Fitted:
    """Coefficients of a wider format for a narrower one, whose products are faster and whose exponentials are not."""
    arithmetic, wider = key.dtypes[0], candidate.dtypes[0]
    if "softmax" not in fitted.coefficients or alike(arithmetic, wider):
        return fitted
    rates = [figures.peak for figures in (hardware(machine, arithmetic), hardware(machine, wider)) if figures]
    faster = rates[0] / rates[1] if len(rates) == 2 else 1.0
    if faster <= 1.0:
        return fitted
    values = dict(fitted.coefficients)
    return replace(fitted, coefficients=values | {"softmax": values["softmax"] * faster})


def _of_kernel(machine: Machine, key: Key, candidate: Key, asked: str, borrowed: bool) -> float:
    """Doubt of the kernel of another op or path that serves; a borrowed path is uncertain enough."""
    if key.op in BUILT_LIKE and candidate.op != key.op:
        return doubt.BUILT_LIKE
    if borrowed:
        return 0.0
    if key.op in TIMED_AS and _stands_in(key, candidate, asked):
        return doubt.TIMED_AS
    if machine.kind != "cpu" or candidate.op == key.op:
        return doubt.OTHER
    return doubt.OTHER_OF_CPU if key.op.removesuffix(BACKWARD) in IN_ORDER else doubt.UNLIKE_OF_CPU


def _stands_in(key: Key, candidate: Key, asked: str) -> bool:
    """Whether kernels of another library serve where the one asked for has its own; for a narrow KV cache it has none."""
    return candidate.backend not in backends(asked) and key.family != "decode"


def _lends_apart(machine: Machine, key: Key) -> bool:
    """Whether other machines lend timings of kernels that are set apart as these are. Those of plain ones, which may be all that were
    taken here, say nothing of them: for unaligned products they would be several times too fast, as would those on the vector units,
    which load any address alike."""
    kind = apart(key)
    rows = (machine.fitted.get(wider) for wider in key.wider() if apart(wider) == kind)
    return bool(kind) and any(row is not None and row.borrowed for row in rows)


def _passes(machine: Machine, key: Key, asked: str) -> list[Pass]:
    """The library that is asked for comes first, though other machines lend it; then what this machine was timed with, then what is lent."""
    passes = [Pass(False), Pass(True)]
    if _in_own_way(machine, key):
        of_op = [Pass(False, own_op=True), Pass(True, own_op=True)]
        in_format = [replace(each, same_arithmetic=True) for each in of_op]
        passes = [
            *(in_format if key.dtypes[0] == DOUBLE or key.op == CONVERTED else ()),
            *(of_op if key.op != CONVERTED else ()),
            *passes,
        ]
    if key.family in OF_ENGINES:
        passes = [Pass(False, same_arithmetic=True), Pass(True, same_arithmetic=True), *passes]
    return [Pass(False, of_library=True), Pass(True, of_library=True), *passes] if asked else passes


def _in_own_way(machine: Machine, key: Key) -> bool:
    """Whether the kernels of this op are built unlike those of other ops of their family, whose timings say little of them."""
    if key.family not in OWN_WAYS or not key.op or machine.kind == "cpu":
        return False
    return key.family != "stream" or key.op.removesuffix(BACKWARD) not in IN_ORDER


def _on_vector_units(machine: Machine, key: Key) -> Key:
    """Products in 16 bits on a machine that does them on its vector units are lent the kernels of fp32, which run there too."""
    if key.family not in VECTOR_PRODUCTS or key.dtype not in HALVES or machine.kind == "cpu":
        return key
    try:
        on_vector = machine.engine("matrix", key.dtype).startswith("vector.")
    except MissingFigure:  # converted
        on_vector = True
    return key._replace(dtype="fp32") if on_vector else key


def _in_timed_half(key: Key) -> Key:
    """Kernels in fp16 are lent what those in bf16 are, which are the same and were timed on more machines and by more libraries.

    Convolutions are not: one machine was timed in both, and cuDNN has faster kernels for depthwise ones in fp16.
    """
    arithmetic, *stored = key.dtypes
    if arithmetic not in HALVES or key.family == "conv":
        return key
    return key._replace(
        dtype="-".join(dict.fromkeys((TIMED_HALF, *(TIMED_HALF if each in HALVES else each for each in stored))))
    )


def kernels(work: Work) -> tuple[Kernel, ...]:
    """The kernels of a work; a streaming work without any is one kernel that moves its bytes."""
    unusual = _unusual(work)
    if work.kernels or work.family not in STREAMING or not work.dtype:
        # collectives have no formula here
        return (
            () if collectives(work) else tuple(replace(each, unusual=unusual or each.unusual) for each in work.kernels)
        )
    sizes: Mapping[str, Array] = {
        "read": work.bytes_at(MAIN, READ),
        "written": work.bytes_at(MAIN, WRITE),
        "flops": work.flops,
        "special": work.special,
        "elements": largest(work.tensor_sizes().values()) / dtype_row(work.dtype).bytes,
        "launches": work.waits.get("launch", 1.0),
    }
    return (Kernel(work.family, sizes, work.name, label(work.dtype), unusual=unusual),)


def _unusual(work: Work) -> str:
    """What no timings are of, though a kernel of the same key was timed: fp8 of other bits, experts that are not used alike, a write that
    reads first, a format of the result. Products are stored in the format of their sums, all else in its own; sums of rows have few results."""
    shape = work.shape
    if work.dtype == UNTIMED_FP8 or shape.get("weights") == UNTIMED_FP8:
        return UNTIMED_FP8
    ways = [name for name, usual in UNTIMED_WAYS.items() if name in shape and np.any(np.asarray(shape[name]) != usual)]
    if ways:
        return ways[0]
    asked = shape.get(RESULT, CAST_TO if work.name == CAST else None)
    if asked is None or work.name in RESULTS_APART:
        return ""
    if work.name == CAST:
        timed = (dtype_row(work.dtype).bits, dtype_row(asked).bits) in TIMED_CASTS
        return "" if timed else dtype_row(asked).name
    usual = stored_result(work.dtype) if work.family in PRODUCTS else dtype_row(work.dtype)
    return "" if dtype_row(asked).name == usual.name else dtype_row(asked).name


def in_cache(work: Work) -> Work:
    """The same work with its operands in the caches of a CPU."""
    held = tuple(replace(each, sizes={**each.sizes, RESIDENT: work.footprint}) for each in kernels(work))
    return replace(work, kernels=held)


def timed_in_cache(machine: Machine) -> bool:
    """Whether kernels of this machine were timed with their operands in its caches."""
    return machine.kind == "cpu" and any(key.resident and not row.borrowed for key, row in machine.fitted.items())
