"""A kernel that no op describes, by the counts its author states."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.machine import MAIN
from ...core.work import READ, Array, FlopKey, Work
from .registry import Count, Format, Size, op


@op("custom", "custom")
def custom(
    bytes: Size, flops: Count = 0, engine: Literal["vector", "matrix"] = "vector", dtype: Format = "fp32"
) -> Work:
    """A kernel of your own, by its counts: `bytes` read and written at the main memory, `flops` on an engine.

    Both are what the algorithm needs. No library kernel is known for it, so the time is a usual share of the ceilings,
    labelled uncalibrated; how the bytes divide into reads and writes is not known, and all are priced as reads.
    """
    counts: dict[FlopKey, Array] = {(engine, dtype, "stated"): flops} if np.any(np.asarray(flops)) else {}
    return Work(
        counts=counts,
        moves={(MAIN, "data", READ): bytes},
        waits={"launch": 1.0},
        dtype=dtype,
        formulas={**dict.fromkeys(counts, "flops"), (MAIN, "data", READ): "bytes"},
    )
