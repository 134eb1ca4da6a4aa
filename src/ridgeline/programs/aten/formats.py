"""Formats of tensors as frameworks write them: bytes of an element, the arithmetic they run in, and promotion.

Tensors may have formats that no arithmetic unit is rated in (64-bit indices, booleans, complex numbers); those are counted
by their width, and their arithmetic as that of the nearest format with a row in `core/dtypes.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...core.dtypes import TABLE
from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError
from ...core.timeline import Tensor

BOOL, INTEGER, REAL, COMPLEX = range(4)  # the kinds that promotion ranks


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    bytes: float
    arithmetic: str  # the row of `core/dtypes.py` that its arithmetic runs in
    kind: int

    @property
    def copied(self) -> str:
        """The format whose copies take the same time: by width alone, because nothing is computed."""
        if self.arithmetic in ("bf16", "fp16") and self.kind == REAL:
            return self.arithmetic
        return {8.0: "fp64", 16.0: "fp64", 4.0: "fp32", 2.0: "bf16"}.get(self.bytes, "int8")


_FURTHER = {
    row.name: row
    for row in (
        Format("bool", 1, "int8", BOOL),
        Format("uint8", 1, "int8", INTEGER),
        Format("int16", 2, "int32", INTEGER),
        Format("uint16", 2, "int32", INTEGER),
        Format("uint32", 4, "int32", INTEGER),
        Format("int64", 8, "int32", INTEGER),
        Format("uint64", 8, "int32", INTEGER),
        Format("complex32", 4, "fp16", COMPLEX),
        Format("complex64", 8, "fp32", COMPLEX),
        Format("complex128", 16, "fp64", COMPLEX),
        Format("fp8_scale", 1, "fp8_e4m3", REAL),
        Format("fp4_pair", 1, "nvfp4", REAL),
    )
}
_SPELLINGS = {
    "long": "int64", "long int": "int64", "short": "int16", "short int": "int16", "char": "int8", "signed char": "int8",
    "byte": "uint8", "unsigned char": "uint8", "int": "int32", "i64": "int64", "i32": "int32", "u8": "uint8",
    "boolean": "bool", "cfloat": "complex64", "cdouble": "complex128", "complex<float>": "complex64",
    "complex<double>": "complex128", "complex<half>": "complex32", "float8_e8m0fnu": "fp8_scale",
    "float4_e2m1fn_x2": "fp4_pair", "float8_e4m3fnuz": "fp8_e4m3", "float8_e5m2fnuz": "fp8_e5m2", "bits8": "uint8",
}  # fmt: skip


@cache
def format_of(name: str) -> Format | None:
    """The format that a framework's name means (`torch.int64`, `c10::BFloat16`, `bf16`); None for none."""
    asked = name.strip().lower().removeprefix("torch.").removeprefix("c10::")
    asked = _SPELLINGS.get(asked, asked)
    if asked in _FURTHER:
        return _FURTHER[asked]
    try:
        row = dtype_row(asked)
    except InputError:
        return None
    return Format(row.name, row.bytes, row.name, INTEGER if row.integer else REAL)


def width(tensor: Tensor) -> float:
    """Bytes of an element of a tensor whose format is known."""
    known = format_of(tensor.dtype)
    return known.bytes if known else 0.0


def known(tensor: Tensor) -> Format:
    """The format of a tensor that `Arguments` has checked."""
    row = format_of(tensor.dtype)
    if row is None:
        raise ValueError(f"no format {tensor.dtype!r}")
    return row


def promoted(tensors: tuple[Tensor, ...], scalars: int = BOOL) -> Format:
    """The format that an operation on these tensors is computed in, as PyTorch promotes types.

    Tensors with dimensions decide; those without, and Python numbers (of the kind `scalars`), only where they are of a
    higher kind. Two 16-bit float formats meet in fp32.
    """
    sized = [known(tensor) for tensor in tensors if tensor.shape] or [known(tensor) for tensor in tensors]
    lead = _widest(sized)
    points = [known(tensor) for tensor in tensors if not tensor.shape and known(tensor).kind > lead.kind]
    if points:
        lead = _widest(points)
    if scalars > lead.kind:
        lead = known(Tensor((), {INTEGER: "int64", REAL: "fp32", COMPLEX: "complex64"}[scalars]))
    return lead


def _widest(formats: list[Format]) -> Format:
    lead = formats[0]
    for other in formats[1:]:
        if other.kind != lead.kind:
            lead = max(lead, other, key=lambda row: row.kind)
        elif other.name != lead.name:
            lead = other if other.bytes > lead.bytes else lead if lead.bytes > other.bytes else _meeting(lead)
    return lead


def _meeting(lead: Format) -> Format:
    """Two formats of one width and kind: bf16 and fp16 in fp32, int8 and uint8 in int16."""
    return known(Tensor((), {REAL: "fp32", INTEGER: "int16"}.get(lead.kind, lead.name)))


def number_kind(value: object) -> int:
    """The kind of a Python number among the arguments."""
    if isinstance(value, bool):
        return BOOL
    return REAL if isinstance(value, float) else COMPLEX if isinstance(value, complex) else INTEGER


def real_result(row: Format) -> Format:
    """What a function with fractions returns: integers become fp32."""
    return row if row.kind in (REAL, COMPLEX) else known(Tensor((), "fp32"))


def matrix_format(row: Format) -> str | None:
    """The row of `core/dtypes.py` that a product of this format runs in, None where there is none."""
    return row.name if row.name in TABLE else None
