"""Kernels that a compiler makes of row reductions: what they move, and what their rows cost beside it."""

from __future__ import annotations

import csv
import statistics
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import ridgeline as rl
from ridgeline.core.timeline import BACKWARD
from ridgeline.core.trace import ACTIVATION, HOLDS

torch = pytest.importorskip("torch")
PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "programs"
H200 = rl.machine("h200-sxm")


def softmax(rows: int, width: int, dtype: str = "bfloat16"):  # type: ignore[no-untyped-def]
    x = torch.empty(rows, width, device="meta", dtype=getattr(torch, dtype))
    return rl.predict(rl.trace(lambda x: (x * 0.125).softmax(-1), x, compiled=True), H200, mode="fused")


def test_what_only_the_last_kernel_reads_is_not_written() -> None:
    made = softmax(4096, 256)
    assert made.totals["kernels"] == 1
    assert made.bytes == 2 * 4096 * 256 * 2


def test_rows_of_no_power_of_two_take_longer_than_their_bytes() -> None:
    """A row of 49 in bf16 fills a block of 64 and is loaded element by element; the floor is that of its bytes."""
    odd, even = softmax(342336, 49), softmax(262144, 64)
    assert odd.bytes == pytest.approx(even.bytes, rel=0.01)
    assert odd.floor == pytest.approx(even.floor, rel=0.01)
    assert odd.time > 2 * even.time


@pytest.mark.parametrize("width", [64, 512, 1024, 2048, 8192])
def test_more_rows_never_take_less(width: int) -> None:
    times = [softmax(rows, width).time for rows in (512, 600, 1024, 4096, 16384)]
    # timings of one shape differ by more than these
    assert all(after >= before * 0.999 for before, after in pairwise(times))


def test_a_row_of_few_is_one_kernel_and_of_very_few_is_split() -> None:
    assert softmax(512, 8192).totals["kernels"] == 1
    assert softmax(16, 65536).totals["kernels"] > 1


def normed(moved: bool) -> float:
    """A layer norm of images, with or without their rows cut into windows."""
    x = torch.empty(48, 56, 56, 96, device="meta", dtype=torch.bfloat16)
    norm = torch.nn.LayerNorm(96, device="meta", dtype=torch.bfloat16)

    def windows(x):  # type: ignore[no-untyped-def]
        y = norm(x)
        return y.view(48, 8, 7, 8, 7, 96).transpose(2, 3).contiguous() if moved else y

    made = rl.predict(rl.trace(windows, x, compiled=True), H200, mode="fused")
    assert made.totals["kernels"] == 1
    return made.time


def test_a_norm_that_writes_its_rows_in_another_order_takes_longer() -> None:
    assert normed(True) > 1.5 * normed(False)


def test_a_largest_pool_takes_as_long_as_its_windows_and_its_gradient_is_written_once() -> None:
    """64 images of 64 x 56 x 56 in bf16 took 24.7 us, and their gradient 102.8 us."""
    x = torch.empty(64, 64, 56, 56, device="meta", dtype=torch.bfloat16, requires_grad=True)

    def step(x):  # type: ignore[no-untyped-def]
        return torch.nn.functional.max_pool2d(x, 3, 2, 1).float().sum().backward()

    made = rl.predict(rl.trace(step, x, compiled=True), H200, mode="fused")
    times = {op.op.removeprefix("aten::"): 1e6 * op.time for op in made.ops}
    assert times["max_pool2d_with_indices_backward"] == pytest.approx(102.8, rel=0.25)
    assert times["max_pool2d_with_indices"] == pytest.approx(24.7, rel=0.35)


def products(tokens: int) -> float:
    a, b = (
        torch.empty(*shape, device="meta", dtype=torch.bfloat16) for shape in ((2304, 48, tokens), (2304, tokens, 32))
    )
    return rl.predict(rl.trace(torch.bmm, a, b, compiled=True), H200, mode="fused").time


def test_products_of_odd_rows_run_as_padded_ones() -> None:
    eager = rl.predict(rl.ops.bmm(batch=2304, m=48, n=32, k=49, dtype="bf16"), H200)
    assert products(49) == pytest.approx(products(56))
    assert products(49) < float(eager.time) / 1.1
    assert products(48) < products(56)


def test_rows_of_integers_are_reduced_too() -> None:
    x = torch.ones(4096, 64, device="meta", dtype=torch.int64)
    assert rl.predict(rl.trace(lambda x: x.sum(-1), x, compiled=True), H200, mode="fused").totals["kernels"] == 1


def pooled(window: int, stride: int, mode: str = "fused") -> float:
    x = torch.empty(8, 64, 14, 14, device="meta", dtype=torch.float16)
    pool = torch.nn.AvgPool2d(window, stride, ceil_mode=True)
    return rl.predict(rl.trace(pool, x, compiled=mode == "fused"), H200, mode=mode).time


def test_an_average_visits_its_window_beyond_the_image() -> None:
    """As compiled kernels do; a window that is as large as the image costs no more than its elements."""
    assert pooled(1400, 1400) > 50 * pooled(14, 14)
    assert pooled(2800, 2800) == pytest.approx(4 * pooled(1400, 1400), rel=0.1)
    assert pooled(14, 14) < 1.5 * pooled(2, 2)


def test_overlapping_windows_stay_with_the_library() -> None:
    """Its kernel takes as long as it does uncompiled, and does not go over windows that end with the image."""
    assert pooled(14, 7) == pytest.approx(pooled(14, 7, "eager"), rel=0.01)
    assert pooled(14, 7) < 2 * pooled(14, 14)


def test_recorded_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sixth of those recorded on an H200, with the figures that were fitted to all of them."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    from compiled_kernels import make

    with (PROGRAMS / "h200-compiled-kernels.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    errors = []
    for row in rows[::6]:
        function, args = make(row["kind"], int(row["rows"]), int(row["width"]), row["dtype"], "meta")
        made = rl.predict(rl.trace(function, *args, compiled=True), H200, mode="fused")
        errors.append(abs(made.totals["time_us"] / float(row["time_us"]) - 1))
    sys.modules.pop("compiled_kernels", None)
    assert len(errors) > 20
    assert statistics.median(errors) < 0.12
    assert max(errors) < 0.6


def held(dropout: float) -> float:
    """Activations that a compiled training step has when its backward pass begins."""
    x, w = (torch.empty(2048, 2048, device="meta", dtype=torch.bfloat16, requires_grad=True) for _ in range(2))

    def step(x, w):  # type: ignore[no-untyped-def]
        weights = torch.nn.functional.dropout(x.softmax(-1), dropout, training=dropout > 0)
        (weights @ w).sum().backward()

    trace = rl.trace(step, x, w, compiled=True)
    made = rl.predict(trace, H200, mode="fused")
    first = next(call for call, place in enumerate(trace.op) if trace.ops[place].site.phase == BACKWARD)
    return float(made.memory.curve[first, HOLDS.index(ACTIVATION)])


def test_the_result_of_dropout_is_made_again_from_its_mask() -> None:
    size = 2048 * 2048
    assert held(0.0) == pytest.approx(2 * size, rel=1e-6)  # the softmax
    assert held(0.1) == pytest.approx(3 * size, rel=1e-6)  # and the mask, a byte for each element
