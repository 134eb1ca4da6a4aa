"""One row per number format: bits, block-scale bits, accumulator; storage and arithmetic kept apart.

`bits` is what an element occupies in memory, block scales aside; `scale_bits` are shared by `block`
elements. Arithmetic is looked up on the machine under `math` (both fp8 encodings run at one rate),
elementwise arithmetic on the vector units under `vector` (16-bit and narrower formats are widened to
fp32 there), and a matrix product stores its result as `result` unless told otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .errors import InputError, unknown


@dataclass(frozen=True)
class Dtype:
    name: str
    bits: float
    accumulator: str
    math: str
    vector: str = "fp32"
    result: str = ""
    scale_bits: float = 0.0
    block: int = 1
    integer: bool = False
    note: str = ""

    @property
    def stored_bits(self) -> float:
        """Bits per element in memory, block scales and zero points shared out."""
        return self.bits + self.scale_bits / self.block

    @property
    def bytes(self) -> float:
        return self.stored_bits / 8


ROWS = (
    Dtype("fp64", 64, "fp64", "fp64", vector="fp64"),
    Dtype("fp32", 32, "fp32", "fp32"),
    Dtype("tf32", 32, "fp32", "tf32", note="stored as fp32; 19 significant bits (8 exponent, 10 mantissa) reach the tensor units"),
    Dtype("bf16", 16, "fp32", "bf16"),
    Dtype("fp16", 16, "fp32", "fp16"),
    Dtype("fp8_e4m3", 8, "fp32", "fp8", result="bf16"),
    Dtype("fp8_e5m2", 8, "fp32", "fp8", result="bf16"),
    Dtype("mxfp8", 8, "fp32", "mxfp8", result="bf16", scale_bits=8, block=32, note="one 8-bit exponent per 32 elements"),
    Dtype("mxfp6", 6, "fp32", "mxfp6", result="bf16", scale_bits=8, block=32, note="one 8-bit exponent per 32 elements"),
    Dtype("mxfp4", 4, "fp32", "mxfp4", result="bf16", scale_bits=8, block=32, note="one 8-bit exponent per 32 elements"),
    Dtype("nvfp4", 4, "fp32", "nvfp4", result="bf16", scale_bits=8, block=16, note="one fp8 scale per 16 elements; the fp32 scale of the whole tensor is left out"),
    Dtype("int32", 32, "int32", "int32", vector="int32", integer=True),
    Dtype("int8", 8, "int32", "int8", result="int32", integer=True),
    Dtype("int4", 4, "int32", "int4", result="int32", integer=True, note="int4_g128 adds an fp16 scale per 128 elements, int4_g128z a zero point too"),
    Dtype("int1", 1, "int32", "int1", result="int32", integer=True),
)  # fmt: skip
TABLE = {row.name: row for row in ROWS}

ALIASES = {
    "float64": "fp64", "double": "fp64", "f64": "fp64", "float32": "fp32", "float": "fp32", "single": "fp32",
    "f32": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "f16": "fp16", "fp8": "fp8_e4m3",
    "e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2", "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2", "i8": "int8",
    "i4": "int4", "binary": "int1",
}  # fmt: skip

CLASSES = {"float": "float64"}  # of numbers in Python; those of NumPy have the names of their formats
_GROUPED = re.compile(r"(\w+)_g(\d{1,9})(z?)", re.ASCII)  # a group is never longer than a tensor
SCALE_BITS = 16.0  # group scales of weight quantisation are fp16


def dtype(name: str | type | Dtype) -> Dtype:
    """The row of a format, or of a class of numbers such as `numpy.float32`; `int4_g128` is int4 with an fp16 scale per 128 elements (`z`: and a zero point)."""
    if isinstance(name, Dtype):
        return name
    asked = CLASSES.get(name.__name__, name.__name__) if isinstance(name, type) else str(name)
    asked = asked.strip().lower().removeprefix("torch.")
    asked = ALIASES.get(asked, asked)
    if asked in TABLE:
        return TABLE[asked]
    grouped = _GROUPED.fullmatch(asked)
    if grouped and ALIASES.get(grouped[1], grouped[1]) in TABLE and int(grouped[2]) > 0:
        base = TABLE[ALIASES.get(grouped[1], grouped[1])]
        if base.scale_bits:
            raise InputError(
                f"{base.name} brings block scales of its own ({base.note}); write it without _g{grouped[2]}"
            )
        extra = SCALE_BITS + (base.bits if grouped[3] else 0.0)
        return replace(base, name=asked, scale_bits=extra, block=int(grouped[2]))
    raise unknown("dtype", name, TABLE, "Add _g128 for a scale per 128 elements (int4_g128).")


def result(name: str | Dtype) -> Dtype:
    """The format a matrix product of this format is stored in when nothing else is asked for."""
    row = dtype(name)
    return TABLE[row.result] if row.result else row


def label(name: str | Dtype, stored: str | Dtype | None = None) -> str:
    """The name timings of a format go by: one for formats that run at one rate, both where weights are stored apart.

    The size of the groups that share a scale hardly shows in times, and is left out.
    """
    row = dtype(name)
    name = row.name if row.scale_bits else row.math
    if stored is None or dtype(stored).name == row.name:
        return name
    return f"{name}-{dtype(stored).name.partition('_g')[0]}"


def narrower(name: str) -> str:
    """Of a `label` the format that is stored in fewer bits than the arithmetic, empty where none is."""
    arithmetic, _, stored = name.partition("-")
    return stored if stored and dtype(stored).bits < dtype(arithmetic).bits else ""
