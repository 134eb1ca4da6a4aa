"""The arguments of an operator at the places of its schema, from the four lists that the profiler writes.

    Input Dims       [[8, 64], [64, 256], []]       a tensor's shape; of a list of tensors their shapes
    Input Strides    as the shapes
    Input type       ["float", "float", "Scalar"]   element type, or what else the argument is; empty for None and the rest
    Concrete Inputs  ["", "", "1"]                  the text of a number, a truth value or a list of them

A list of tensors has shapes and no element type. What was not recorded is None.
"""

from __future__ import annotations

import math
import re
from typing import Any

from ...core.intake import clean
from ...core.timeline import Tensor

DTYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "c10::Float8_e4m3fn": "fp8_e4m3",
    "c10::Float8_e5m2": "fp8_e5m2", "signed char": "int8", "unsigned char": "uint8", "short int": "int16",
    "int": "int32", "long int": "int64", "long": "int64", "bool": "bool", "unsigned short": "uint16",
    "unsigned int": "uint32", "unsigned long": "uint64", "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128", "c10::complex<c10::Half>": "complex32",
    # as collectives write them
    "Float": "fp32", "Double": "fp64", "Half": "fp16", "BFloat16": "bf16", "Float8_e4m3fn": "fp8_e4m3",
    "Float8_e5m2": "fp8_e5m2", "Char": "int8", "Byte": "uint8", "Short": "int16", "Int": "int32", "Long": "int64",
    "Bool": "bool",
}  # fmt: skip
TENSOR_LIST = "TensorList"
MAX_SIZE = 2**62  # of one dimension or stride
MAX_DIGITS = 18
_INT = re.compile(r"-?\d{1,18}", re.ASCII)
_FLOAT = re.compile(r"-?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_WORDS = {"True": True, "False": False, "true": True, "false": False, "None": None, "inf": math.inf, "-inf": -math.inf,
          "nan": math.nan}  # fmt: skip


def element_type(kind: Any) -> str | None:
    """The dtype of a tensor argument in ridgeline's names; None where the argument is no tensor."""
    if not isinstance(kind, str):
        return None
    if kind in DTYPES:
        return DTYPES[kind]
    return clean(kind.removeprefix("c10::")) if kind.startswith("c10::") else None


def arguments(dims: Any, types: Any, strides: Any = None, inputs: Any = None) -> tuple[Any, ...]:
    """The arguments of a call; without types, whatever has dimensions is a tensor of unknown dtype."""
    shapes, kinds, layouts, texts = (
        value if isinstance(value, list) else [] for value in (dims, types, strides, inputs)
    )
    count = max(len(shapes), len(kinds), len(texts))
    return tuple(
        _argument(_at(shapes, place), _at(kinds, place) if kinds else None, _at(layouts, place), _at(texts, place))
        for place in range(count)
    )


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else ""


def _argument(shape: Any, kind: Any, strides: Any, text: Any) -> Any:
    dtype = element_type(kind)
    if dtype is not None:
        sizes = _sizes(shape)
        return None if sizes is None else _tensor(sizes, dtype, strides)
    if kind == TENSOR_LIST or (kind in ("", None) and isinstance(shape, list) and shape and isinstance(shape[0], list)):
        return _tensors(shape, strides)
    if kind is None and shape:  # no types were recorded
        sizes = _sizes(shape)
        return None if sizes is None else _tensor(sizes, "", strides)
    return scalar(text)


def _tensors(shapes: Any, strides: Any) -> tuple[Tensor, ...]:
    layouts = strides if isinstance(strides, list) else []
    sizes = [_sizes(shape) for shape in shapes] if isinstance(shapes, list) else []
    return tuple(_tensor(item, "", _at(layouts, place)) for place, item in enumerate(sizes) if item is not None)


def _tensor(sizes: tuple[int, ...], dtype: str, strides: Any) -> Tensor:
    layout = _sizes(strides) or ()
    return Tensor(sizes, dtype, layout if len(layout) == len(sizes) else ())


def _sizes(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(size) is int and 0 <= size <= MAX_SIZE for size in value):
        return tuple(value)
    return None


def scalar(text: Any) -> Any:
    """A number, a truth value, a tuple of them or a text; None for nothing."""
    if not isinstance(text, str) or not text:
        return tuple(scalar(item) for item in text) if isinstance(text, list) and text and _flat(text) else None
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text[0] == "[" and text[-1] == "]":
        inside = text[1:-1].strip()
        return tuple(scalar(item.strip().strip("'\"")) for item in inside.split(",")) if inside else ()
    return clean(text)


def _flat(items: list[Any]) -> bool:
    return all(isinstance(item, str) for item in items)
