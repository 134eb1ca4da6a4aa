"""Pictures that several tests draw."""

from __future__ import annotations

from typing import Any

import ridgeline as rl
from ridgeline.programs import ops
from ridgeline.render.chart import Picture
from ridgeline.render.charts import CHARTS
from ridgeline.render.figure import plot

A100 = rl.machine("a100-sxm-80gb")
H100 = rl.machine("h100-sxm")


def picture(name: str = "roofline", machine: Any = A100, **options: Any) -> Picture:
    return CHARTS[name](machine, **options)


def crowd(count: int = 30) -> Picture:
    """Products of nearly the same intensity and rate."""
    works = [ops.gemm(m=1024 + 64 * index, n=2048 + 128 * (index % 7), k=4096) for index in range(count)]
    return plot(A100, [rl.predict(work, A100) for work in works]).chart
