"""The four loops of STREAM (McCalpin), with the bytes that the benchmark counts."""

from __future__ import annotations

from ...core.work import Array, Work, only_if, work
from .registry import Flag, Format, Size, op


def _stream(n: Array, dtype: str, reads: tuple[str, ...], target: str, flops: float, write_allocate: Array) -> Work:
    vector = {"arithmetic": (flops * n, f"{flops:g} n")} if flops else None
    allocate = {target: (only_if(write_allocate, n), dtype, "n (write-allocate)")}
    return work(
        vector=vector,
        read={**dict.fromkeys(reads, (n, dtype, "n")), **allocate},
        write={target: (n, dtype, "n")},
        dtype=dtype,
        notes=("nominal STREAM bytes; write_allocate adds the read of the line that is written",),
    )


@op("stream", "stream")
def stream_copy(n: Size, dtype: Format = "fp64", write_allocate: Flag = False) -> Work:
    """c = a. 2 words per element, no flops; with write-allocate 3 words."""
    return _stream(n, dtype, ("a",), "c", 0.0, write_allocate)


@op("stream", "stream")
def stream_scale(n: Size, dtype: Format = "fp64", write_allocate: Flag = False) -> Work:
    """b = s c. 2 words and 1 flop per element; with write-allocate 3 words."""
    return _stream(n, dtype, ("c",), "b", 1.0, write_allocate)


@op("stream", "stream")
def stream_add(n: Size, dtype: Format = "fp64", write_allocate: Flag = False) -> Work:
    """c = a + b. 3 words and 1 flop per element; with write-allocate 4 words."""
    return _stream(n, dtype, ("a", "b"), "c", 1.0, write_allocate)


@op("stream", "stream")
def stream_triad(n: Size, dtype: Format = "fp64", write_allocate: Flag = False) -> Work:
    """a = b + s c. 3 words and 2 flops per element; with write-allocate 4 words."""
    return _stream(n, dtype, ("b", "c"), "a", 2.0, write_allocate)
