"""Doubt: how far a kernel may be off because its coefficients are those of another one; the interval of these is widened by it.

Each doubt is the end of an 80 % interval, in logarithms. It is independent of the errors of the coefficients themselves, so that squares add
up: kernels that are well known become as uncertain as the doubt, and those that are not stay nearly as they are.

    HALF      another format of 16 bits: products by the coefficients of bf16 and fp16, on the H200 that was timed in both, differ by 0.15, other
              families by less than 0.01
    FORMAT    another format: 0.17 (products in fp8 by those of bf16), 0.33 (fp64 by fp32), 0.65 (fp8 and int8), 0.82 and more (tf32 by fp32)
    STORED    the same arithmetic, operands stored otherwise: what moves is counted, how it is unpacked is not known
    STREAMED  another format of a kernel that streams, whose bytes are counted: 0.27 over 18 ops in bf16 by the fp32 ones of the H200, OTHER included
    DOUBLED   rows in fp64 by the coefficients of a narrower format, whose arithmetic is faster: 70 timings of eight ops of the H200
    OTHER     another op or library of this machine: an elementwise op by the others of its machine (0.10 over 4031 of six GPUs, fp32)
    OTHER_OF_CPU  the same on a CPU, where arithmetic may take longer than the bytes: 0.38 over 112 timings of seven ops of a Xeon, fp32
    UNLIKE_OF_CPU  an op of a CPU that is not built like the others, which may run on one core: 0.57 over 176 timings of eleven ops there
    BUILT_LIKE  an op of a kernel that is built alike: 701 windows by Triton, from its causal kernel, are held as often as promised
    TIMED_AS  a kernel of the default path by one that does the same: 72 windows by FlexAttention from Triton's kernel
    VENDOR    another vendor: with it 83 % of the kernels of an MI100 (four families, fp32) lie in the interval that NVIDIA's kernels lend, without it 79 %
"""

from __future__ import annotations

from math import sqrt

from ..core.families import Key

HALVES = ("bf16", "fp16")
STREAMING = ("stream", "reduce", "gather")  # families whose kernels are known by their bytes alone
HALF, FORMAT, STORED, STREAMED, OTHER, BUILT_LIKE, TIMED_AS, VENDOR = 0.1, 0.4, 0.2, 0.25, 0.1, 0.27, 0.25, 0.25
DOUBLED = 0.8
OTHER_OF_CPU, UNLIKE_OF_CPU = 0.4, 0.6
DOUBLE, ROWS = "fp64", "rows"
LENDER_VENDOR = "NVIDIA"  # on whose GPUs nearly all borrowed coefficients were timed


def alike(dtype: str, other: str) -> bool:
    """Whether two formats run the same kernels: arithmetic in either format of 16 bits, on operands stored alike."""
    (arithmetic, *stored), (others, *stored_there) = dtype.split("-"), other.split("-")
    return dtype == other or (arithmetic in HALVES and others in HALVES and stored == stored_there)


def of_format(key: Key, candidate: Key) -> float:
    """Of a kernel whose coefficients are of another format."""
    if candidate.dtype == key.dtype:
        return 0.0
    if alike(candidate.dtype, key.dtype):
        return HALF
    if key.family in STREAMING:
        return STREAMED
    if key.family == ROWS and key.dtype == DOUBLE:
        return DOUBLED
    return STORED if alike(candidate.dtypes[0], key.dtypes[0]) else FORMAT


def together(*doubts: float) -> float:
    """Of several that are independent."""
    return sqrt(sum(each * each for each in doubts))
