"""Elementwise operators: one rule for all whose results have the shape that their tensors broadcast to.

Every tensor is read once (a broadcast one at its own size), the result written once; in place, the first tensor is read and
written. Which operators these are is torch's word (`names.py`), with those that it does not tag named below. Flops are per
element of the result: 1 unless the table says otherwise, special functions counted apart.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.timeline import Tensor
from ...core.work import Work
from ..ops.elementwise import PROFILE
from ..ops.norm import transpose
from ..ops.strided import CONVERTED, EXPANDED, STRIDED
from .arguments import Arguments, Missing, elements
from .building import after, distinct, streamed
from .counted import Rule
from .formats import BOOL, COMPLEX, Format, known, number_kind, promoted, real_result
from .matmul import broadcast
from .names import POINTWISE

# Operators that are elementwise without torch's tag: the places before those given by keyword.
FURTHER = {
    "hardswish": 1, "hardswish_backward": 2, "hardsigmoid_backward": 2, "hardtanh_backward": 4, "elu_backward": 6,
    "leaky_relu_backward": 4, "softplus_backward": 4, "softshrink_backward": 3, "hardshrink_backward": 3,
    "mish_backward": 2, "log_sigmoid_backward": 3, "_prelu_kernel": 2, "polar": 2, "complex": 2, "masked_fill": 3,
    "rrelu_with_noise": 2, "silu": 1, "lerp": 3, "fmod": 2, "floor_divide": 2, "special_ndtr": 1, "fill_mask": 2,
    "fake_quantize_per_tensor_affine_cachemask": 5, "quantize_per_tensor": 4, "_conj_physical": 1, "logit_backward": 3,
    "threshold": 3, "eq": 2, "ne": 2, "lt": 2, "le": 2, "gt": 2, "ge": 2, "maximum": 2, "minimum": 2,
}  # fmt: skip
_TAGGED = {name: int(places) for name, _, places in (word.partition(":") for word in POINTWISE.split())}
_ELSEWHERE = {
    "clone",
    "equal",
    "max",
    "min",
    "native_dropout_backward",
    "positive",
}  # tagged, and more than elementwise
PLACES = {name: places for name, places in (_TAGGED | FURTHER).items() if name not in _ELSEWHERE}

_COMPARING = (
    "eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isfinite isneginf isposinf signbit"
)
COMPARISONS = frozenset(_COMPARING.split())
SELECTIONS = {"where", "masked_fill", "_conj_physical", "conj_physical", "complex", "heaviside"}  # no arithmetic
FRACTIONS = {"div", "true_divide", "reciprocal", "sqrt", "rsqrt", "sigmoid"}  # integers become fp32

# Flops per element, and how many of them are special functions (exp, log, roots, divisions, trigonometry). The names that
# `ops` times have its nominal counts.
COSTS: dict[str, tuple[float, float]] = {
    **{name: (row.nominal, row.special) for name, row in PROFILE.items() if name in PLACES},
    **dict.fromkeys(("sqrt", "rsqrt", "reciprocal", "div", "log", "log2", "log10", "exp2", "sin", "cos", "erf"), (1.0, 1.0)),
    **dict.fromkeys(("log1p", "expm1", "tan", "atan", "asin", "acos", "atan2", "erfc", "erfinv"), (2.0, 1.0)),
    "pow": (2.0, 2.0), "float_power": (2.0, 2.0), "sinh": (4.0, 2.0), "cosh": (4.0, 2.0), "remainder": (3.0, 1.0),
    "fmod": (3.0, 1.0), "floor_divide": (2.0, 1.0), "square": (1.0, 0.0), "lerp": (3.0, 0.0), "addcmul": (3.0, 0.0),
    "addcdiv": (3.0, 1.0), "clamp": (2.0, 0.0), "hardtanh": (2.0, 0.0), "relu6": (2.0, 0.0), "leaky_relu": (2.0, 0.0),
    "hardswish": (5.0, 0.0), "hardsigmoid": (4.0, 0.0), "hardswish_backward": (5.0, 0.0), "elu": (4.0, 1.0),
    "elu_backward": (5.0, 1.0), "softplus": (4.0, 2.0), "softplus_backward": (5.0, 2.0), "mish": (6.0, 3.0),
    "logaddexp": (5.0, 2.0), "xlogy": (2.0, 1.0), "gelu_backward": (18.0, 1.0), "silu_backward": (9.0, 2.0),
    "sigmoid_backward": (3.0, 0.0), "tanh_backward": (3.0, 0.0), "log_sigmoid_backward": (6.0, 1.0), "logit": (3.0, 2.0),
    "leaky_relu_backward": (2.0, 0.0), "hardtanh_backward": (2.0, 0.0), "hypot": (4.0, 1.0), "logsigmoid": (5.0, 2.0),
}  # fmt: skip
# The timed op whose kernel an operator runs, where its own name is not one.
TIMED = {"sub": "add", "rsub": "add", "threshold_backward": "relu_backward", "clamp_min": "relu", "leaky_relu": "relu"}
EXACT = {"gelu": "gelu_erf", "gelu_backward": "gelu_erf_backward"}
SCALED = ("add", "sub", "rsub", "mul", "div")  # by a number they run as `scal` does
COMPLEX_FACTOR = {"mul": 6.0, "div": 11.0}  # real flops for one of complex numbers; others take 2


def root(base: str) -> str:
    """The name without the mark of working in place, and of the old spellings with underscores."""
    if base.startswith("__") and base.endswith("__"):
        inner = base.strip("_").removeprefix("i")
        return {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}.get(inner, base)
    return base.removesuffix("_") if base.endswith("_") else base


def is_elementwise(base: str) -> bool:
    return root(base) in PLACES


def costs(name: str, row: Format, count: float) -> tuple[float, float]:
    """Flops and special functions of so many results."""
    if name in SELECTIONS:
        return 0.0, 0.0
    each, special = COSTS.get(name, (1.0, 0.0))
    factor = COMPLEX_FACTOR.get(name, 2.0) if row.kind == COMPLEX else 1.0
    return each * factor * count, special * count


def operands(arguments: Arguments, places: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The tensors that are read, and those given to be written."""
    read = tuple(arg for arg in arguments.args[:places] if isinstance(arg, Tensor))
    write = tuple(arg for arg in arguments.args[places:] if isinstance(arg, Tensor))
    return read, write


def result_of(name: str, arguments: Arguments, read: tuple[Tensor, ...], row: Format) -> Tensor:
    """The result: as recorded, else the broadcast shape in the promoted format."""
    shape = broadcast(tuple(tensor.shape for tensor in read))
    if arguments.outputs:
        return arguments.outputs[0]
    if name in COMPARISONS:
        return Tensor(shape, "bool")
    special = COSTS.get(name, (1.0, 0.0))[1] > 0 or name in FRACTIONS
    return Tensor(shape, (real_result(row) if special else row).name)


def timed_as(name: str, read: tuple[Tensor, ...], out: Tensor) -> str:
    """The timed op whose kernel runs: contiguous tensors of one format are loaded in vectors, others are not."""
    operands = [tensor for tensor in read if tensor.shape] or [out]
    if out.shape and len(operands) < len(read) and (name == "where" or any(_on_device(each, out) for each in read)):
        return STRIDED  # a number becomes a tensor of one element, which is repeated
    if len(operands) == 1 and operands[0].shape == out.shape and distinct(operands[0]) < prod(out.shape):
        return EXPANDED
    if any(
        tensor.shape != out.shape or order(tensor) != order(operands[0]) or not dense(tensor) for tensor in operands
    ):
        return STRIDED
    values = [tensor for tensor in operands if name not in SELECTIONS or tensor.dtype != "bool"]
    if any(tensor.dtype != values[0].dtype for tensor in values):  # masks are loaded as they are
        return CONVERTED
    return "scal" if name in SCALED and len(operands) == 1 else TIMED.get(name, name)


def _on_device(tensor: Tensor, out: Tensor) -> bool:
    """Whether a tensor of one value is one of the device's: Python's numbers are recorded as fp64, whatever they meet."""
    return not tensor.shape and tensor.dtype == out.dtype != "fp64"


def order(tensor: Tensor) -> tuple[int, ...]:
    """Dimensions of more than one element from the outermost in memory to the innermost."""
    sized = [place for place, size in enumerate(tensor.shape) if size > 1]
    return tuple(sorted(sized, key=lambda place: -tensor.strides[place])) if tensor.strides else tuple(sized)


def dense(tensor: Tensor) -> bool:
    """Whether the elements fill their storage without gaps or repeats; taken so where the layout was not recorded."""
    if not tensor.strides:
        return True
    step = 1
    for place in reversed(order(tensor)):
        if tensor.strides[place] != step:
            return False
        step *= tensor.shape[place]
    return True


def elementwise(arguments: Arguments) -> Work:
    """Reads each operand once, writes the result once."""
    name = root(arguments.base)
    read, given = operands(arguments, PLACES[name])
    if not read:
        raise Missing("shapes were not recorded")
    kinds = [number_kind(arg) for arg in arguments.args[: PLACES[name]] if isinstance(arg, int | float | complex)]
    row = promoted(read, max(kinds, default=BOOL))
    shape = broadcast(tuple(tensor.shape for tensor in read))
    given = tuple(tensor for tensor in given if elements(tensor))  # one without elements is made as large as is needed
    out = given[0] if given else read[0] if arguments.in_place else result_of(name, arguments, read, row)
    if prod(out.shape) < prod(shape):
        raise Missing(f"the result {out.shape} is smaller than its operands {shape}")
    reads: dict[str, Tensor | tuple[float, str]] = {f"x{place}": tensor for place, tensor in enumerate(read)}
    write: dict[str, Tensor | tuple[float, str]] = {"x0" if arguments.in_place else "y": out}
    flops, special = costs(name, row, float(elements(out)))
    timed = timed_as(name, read, out)
    if timed in EXACT and "tanh" not in arguments.args:  # the form by erf, unless the other is asked for
        timed = EXACT[timed]
    like = STRIDED if timed == EXPANDED else ""
    work = streamed(name, reads, write, row, flops, special, op=timed, like=like, count=float(elements(out)))
    return _crossed(work, read, out)


def _crossed(work: Work, read: tuple[Tensor, ...], out: Tensor) -> Work:
    """Of operands whose neighbours are not those of the result: threads load them a row apart, as a transpose does."""
    along = innermost(out)
    across = [
        tensor
        for tensor in read
        if tensor.shape == out.shape and innermost(tensor) not in (None, along) and distinct(tensor) == elements(tensor)
    ]
    if along is None or not across:
        return work
    cols = across[0].shape[innermost(across[0]) or 0]
    transposed = transpose(rows=elements(out) // max(cols, 1), cols=cols, dtype=known(across[0]).copied)
    return replace(work, kernels=transposed.kernels)


def innermost(tensor: Tensor) -> int | None:
    """The dimension whose elements lie next to each other, None where that is not recorded or all have one element."""
    if not tensor.strides:
        return None
    sized = [
        (stride, place)
        for place, (size, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True))
        if size > 1
    ]
    ones = [place for stride, place in sized if stride == 1]
    return ones[-1] if ones else None


def _masked_fill(arguments: Arguments) -> Work:
    """masked_fill(x, mask, value): torch copies x and fills the copy in place: x read and y written, then once more."""
    x = arguments.tensor(0)
    filled = elementwise(arguments)
    if arguments.in_place:
        return filled
    out = arguments.outputs[0] if arguments.outputs else x
    copy = streamed("copy", {"x0": x}, {"y": out}, known(x), op="copy", count=float(elements(out)))
    return after("masked_fill", filled, copy)


def _log_sigmoid(arguments: Arguments) -> Work:
    """log_sigmoid_forward(x) -> y and, on CPU, a buffer: 5 flops per element, two of them special."""
    x = arguments.tensor(0)
    size = float(elements(x))
    return streamed("logsigmoid", {"x": x}, {"y": x}, known(x), 5.0 * size, 2.0 * size)


def _prelu_backward(arguments: Arguments) -> Work:
    """_prelu_kernel_backward(dy, x, weight): dx and the weight's gradient before its sum, both of the shape of x."""
    dy, x, weight = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    return streamed(
        "prelu_backward", {"dy": dy, "x": x, "weight": weight}, {"dx": x, "dweight": x}, known(x), 3.0 * elements(x)
    )


def _glu(arguments: Arguments) -> Work:
    """glu(x, dim): half of x times the sigmoid of the other half: 5 flops per result, two of them special."""
    x = arguments.tensor(0)
    half = elements(x) / 2
    return streamed("glu", {"x": x}, {"y": (half, x.dtype)}, known(x), 5 * half, 2 * half)


def _glu_backward(arguments: Arguments) -> Work:
    """glu_backward(dy, x, dim): the gradients of both halves, 10 flops per element of dy."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    size = float(elements(dy))
    return streamed("glu_backward", {"dy": dy, "x": x}, {"dx": x}, known(x), 10 * size, 2 * size)


RULES: dict[str, Rule] = {
    "masked_fill": _masked_fill,
    "log_sigmoid_forward": _log_sigmoid,
    "_prelu_kernel_backward": _prelu_backward,
    "glu": _glu,
    "glu_backward": _glu_backward,
}
