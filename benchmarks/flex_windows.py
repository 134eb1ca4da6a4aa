"""Attention with a sliding window by FlexAttention, which is what PyTorch has for windows: timed, and predicted by the default path.

    python benchmarks/flex_windows.py FILE [--seconds 150]    time windows on a machine with an NVIDIA GPU, never to be fitted to
    python benchmarks/flex_windows.py                         judge the H200's expected times on benchmarks/data/h200-flex-test.csv

Each shape compiles a kernel of its own, which takes seconds: as many are timed as there is time for.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from judge_h200 import DATA, judge, rows
from windows import cases

from ridgeline.measure.cuda import kernels
from ridgeline.measure.cuda.draw import Case, Draw
from ridgeline.measure.cuda.timing import Gpu, chunks, open_gpu

SEED, COUNT, MAX_KEYS = 20261120, 200, 16384
AT_ONCE = 4  # that are compiled before they are timed
TIMED = DATA / "h200-flex-test.csv"


def drawn() -> list[Case]:
    """As many windows over heads of a power of two and masks that have room; without the backend, since it is the default path."""
    made = cases(Draw(np.random.default_rng(SEED), smooth=True), COUNT)
    return [
        {name: value for name, value in case.items() if name != "backend"}
        for case in made
        if case["seq_kv"] <= MAX_KEYS
    ]


def flexible(gpu: Gpu, case: Case) -> Callable[[], object]:
    """A call of FlexAttention with the mask of a window."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch = gpu.torch
    offset, window = case["seq_kv"] - case["seq_q"], case["window"]

    def seen(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        return (query + offset >= key) & (query + offset - key < window)

    def operand(heads: int, length: int) -> Any:
        made = gpu.pool.take(case["dtype"], case["batch"], length, heads, case["head_dim"])
        return made.transpose(1, 2)

    gpu.pool.begin()
    q = operand(case["heads"], case["seq_q"])
    k, v = (operand(case["kv_heads"], case["seq_kv"]) for _ in range(2))
    mask = create_block_mask(seen, None, None, case["seq_q"], case["seq_kv"], device="cuda")
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=case["heads"] != case["kv_heads"])


def main() -> None:
    if len(sys.argv) == 1:
        judge("windows by FlexAttention", [row for row in rows(TIMED) if "time_us" in row])
        return
    seconds = float(sys.argv[3]) if sys.argv[2:3] == ["--seconds"] else 150.0
    until = time.perf_counter() + seconds
    gpu, watch, _ = open_gpu()
    gpu.build = lambda case: flexible(gpu, case)  # type: ignore[method-assign]
    flat: list[dict[str, Any]] = []
    asked = drawn()
    with watch:
        for first in range(0, len(asked), AT_ONCE):  # so that an early end keeps those before
            for chunk in chunks(asked[first : first + AT_ONCE], gpu, until=until):
                flat += kernels.rows(chunk)
                Path(sys.argv[1]).write_text(kernels.table(flat))
                print(f"{len(flat)} of {len(asked)}", flush=True)


if __name__ == "__main__":
    main()
