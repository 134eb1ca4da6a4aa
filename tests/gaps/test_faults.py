"""Planted and recorded faults: each is named on top, with its price."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_samples import COPIED, COPY, HBM, LOADED, QUIET, achievable, gap_of, launch, profiled, top
from gap_samples import H200, NCU

from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step, Work
from ridgeline.gaps.advice import advise
from ridgeline.gaps.report import reconcile
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.programs import ops


def test_uncoalesced_copy() -> None:
    """Each thread of a warp reads 4 B of a sector of its own: 8 times the sectors, and L2 is what is busy."""
    counters = {"sectors_per_load": 32.0, "bytes_per_sector_load": 4.0, "l2_busy": 0.96, "l2_to_sm": 8 * LOADED}
    item = profiled(5 * achievable(COPY), moved=COPIED, bytes={"l2": 9 * LOADED}, counters=counters)
    advice = top(gap_of(COPY, item))
    assert (advice.rule, advice.status, advice.direction) == ("uncoalesced", "shown", "both")
    assert "bytes fetched per byte used 8x" in advice.evidence
    assert advice.gain == pytest.approx(
        item.median - achievable(COPY)
    )  # an eighth of the time would be less than is possible


def test_naive_gemm_without_tiling() -> None:
    """One thread per element, operands from the caches: a warp's multiply-add loads 128 + 32 B for 64 flops."""
    work = ops.gemm(2048, 2048, 2048, dtype="fp32")
    flops = 2 * 2048.0**3
    counters = {"l1_busy": 0.9, "fma_busy": 0.12, "sectors_per_load": 2.5, "bytes_per_sector_load": 26.4, "l2_hit": 0.9}
    item = profiled(2.4e-3, flops=flops, moved=2e8, bytes={"l1": 2.5 * flops, "l2": flops / 8}, counters=counters)
    advice = advise(gap_of(work, item))
    assert (advice[0].rule, advice[0].status) == ("no tiling", "shown")
    assert advice[0].gain == pytest.approx(2.4e-3 - achievable(work))
    assert not any(item.rule == "no tensor cores" for item in advice)  # the vector units wait as well


def test_tiles_that_are_too_small() -> None:
    """Tiles of 32 x 32, an element per thread: each multiply-add reads 4 B and a broadcast from shared memory."""
    work = ops.gemm(4096, 4096, 4096, dtype="fp32")
    flops = 2 * 4096.0**3
    counters = {"l1_busy": 0.85, "fma_busy": 0.15, "shared_per_block": 9216.0, "shared_wavefronts": 3.4e9}
    item = profiled(15.6e-3, flops=flops, moved=8.5e9, bytes={"l1": 1.7e10, "l2": 1.7e10, "shared": 128 * 3.4e9}, counters=counters)  # fmt: skip
    advice = top(gap_of(work, item))
    assert (advice.rule, advice.status, advice.direction) == ("small tiles", "shown", "both")
    assert "limiter L1" in advice.evidence
    assert advice.gain == pytest.approx(15.6e-3 - achievable(work))
    conflicts = advise(gap_of(work, replace(item, counters={**item.counters, "bank_conflicts": 3e9})))
    assert conflicts[0].rule == "bank conflicts"
    assert not any(item.rule == "small tiles" for item in conflicts)


def test_unused_bytes_of_sectors_are_no_fault_where_instructions_are_the_limiter() -> None:
    """A row read twice, the second time from L1: 8 sectors a load, little of each used, and the schedulers issue all the time."""
    work = ops.layernorm(16384, 4096, dtype="bf16")
    counters = {"sectors_per_load": 8.0, "bytes_per_sector_load": 12.8, "issue": 0.8, "hbm_busy": 0.55, "l1_hit": 0.75}
    advice = advise(gap_of(work, profiled(103e-6, flops=1.3e9, moved=2.5e8, counters=counters)))
    assert [item.rule for item in advice] == ["issue"]


def test_bank_conflicts() -> None:
    """A transpose through shared memory without padding: 1 + 32 wavefronts where 1 + 1 would do."""
    work = ops.transpose(8192, 8192, dtype="fp32")
    warps = 8192.0**2 / 32
    wavefronts, conflicts = 33 * warps, 31 * warps
    counters = {
        "bank_conflicts": conflicts, "shared_wavefronts": wavefronts, "l1_busy": 0.97, "shared_per_block": 5120.0,
        "stall.mio_throttle": 40.0,
    }  # fmt: skip
    time = wavefronts / (132 * 1.98e9) * 1.05
    item = profiled(time, moved=COPIED, bytes={"shared": 128 * wavefronts}, counters=counters)
    advice = top(gap_of(work, item))
    assert (advice.rule, advice.status, advice.direction) == ("bank conflicts", "shown", "up")
    assert advice.gain == pytest.approx(min(conflicts / (132 * 1.98e9), time - achievable(work)))


@pytest.mark.parametrize(
    ("counters", "rule"),
    [
        ({"occupancy": 0.03, "occupancy_limit": 0.03, "blocks_by_shared": 1.0, "shared_per_block": 230e3}, "low occupancy"),
        ({"blocks": 8.0, "waves": 0.03, "occupancy": 0.5, "sm_active": 0.06}, "few blocks"),
    ],
)  # fmt: skip
def test_low_occupancy(counters: dict[str, float], rule: str) -> None:
    item = profiled(6 * achievable(COPY), moved=COPIED, counters=counters)
    advice = top(gap_of(COPY, item))
    assert (advice.rule, advice.status, advice.direction) == (rule, "shown", "up")
    assert advice.gain == pytest.approx(5 * achievable(COPY), rel=0.3)


def test_register_spills() -> None:
    """Three quarters of what passes L1 are spilled registers."""
    local = 3 * COPIED
    counters = {"local_sectors": local / 32, "spills": 1e6, "l2_busy": 0.7, "hbm_busy": 0.6, "l2_to_sm": 2 * LOADED}
    item = profiled(
        4 * achievable(COPY), moved=2 * COPIED, bytes={"l1": local + COPIED, "l2": 3 * COPIED}, counters=counters
    )
    advice = top(gap_of(COPY, item))
    assert (advice.rule, advice.status) == ("spills", "shown")
    assert advice.gain == pytest.approx(0.75 * item.median)


def test_recorded_spills_and_conflicts() -> None:
    """Two kernels with these faults as an H200 counted them."""
    spill, conflict = observe.load(NCU / "h200_faults.csv")
    # each of 67.1 M floats read and written once, 4 flops on each
    streamed = replace(ops.stream_scale(2**26, dtype="fp32"), name="spill")
    assert top(gap_of(streamed, spill)).rule == "spills"
    stored = Work(
        counts={("vector", "fp32", "adds"): 3.355e7}, moves={("main", "y", "write"): 4.194e6}, waits={"launch": 1.0},
        name="conflict", dtype="fp32", family="stream",
    )  # fmt: skip
    advice = top(gap_of(stored, conflict))
    assert advice.rule == "bank conflicts"
    assert advice.gain == pytest.approx(3.253e7 / (132 * 1.980026e9), rel=0.001)


def test_thousands_of_tiny_kernels() -> None:
    """A thousand launches of 2.1 us for what one kernel does in a few."""
    work = ops.add(1024 * 1000, dtype="fp32")
    each = {"vector.fp32": 1024.0}
    items = [
        Observation("many", "many", (2.1e-6,), kernel="add", counters=QUIET | {"blocks": 1.0, "waves": 0.0}, flops=each, bytes={"hbm": 12288.0})
        for _ in range(1000)
    ]  # fmt: skip
    (item,) = reconcile(predict(Program((Step("many", work),)), H200), items).items
    assert item.top is not None
    assert (item.top.rule, item.top.status, item.top.move) == ("tiny kernels", "shown", "fuse kernels")
    assert "kernels 1,000" in item.top.evidence
    assert item.top.gain == pytest.approx(2.1e-3 - achievable(work))
    graph = next(item for item in item.advice if item.rule == "launches")
    assert graph.gain == pytest.approx(1000 * 1.4646874e-6 * (1 - 0.46))


def test_unfused_norm_and_gemm_as_two_steps() -> None:
    """One writes what the other reads, in one module: a write and a read of 8192 x 4096 bf16, and a launch."""
    norm, product = ops.rmsnorm(8192, 4096, dtype="bf16"), ops.gemm(8192, 4096, 4096, dtype="bf16")
    tensor = 8192 * 4096 * 2.0
    program = Program((Step("block.norm", norm), Step("block.fc", product)))
    observed = [
        profiled(1.1 * achievable(norm), "block.norm", flops=1.7e8, moved=2 * tensor, counters={"hbm_busy": 0.85}),
        profiled(1.1 * achievable(product), "block.fc", flops=2 * 8192 * 4096 * 4096.0, moved=2.5 * tensor, engine="tensor.bf16", counters={"tensor_busy": 0.9}),
    ]  # fmt: skip
    first, second = reconcile(predict(program, H200), observed).items
    assert first.top is not None
    assert (first.top.rule, first.top.status, first.top.direction) == ("unfused neighbour", "shown", "right")
    assert any("with block.fc" in text for text in first.top.evidence)
    rate = predict(norm, H200).bounds[0].terms["hbm"].rate
    assert first.top.gain == pytest.approx(2 * tensor / rate + 1.4646874e-6, rel=1e-6)
    assert not any(item.rule == "unfused neighbour" for item in second.advice)
    apart = [replace(item, name=item.name.partition(".")[2]) for item in observed]
    loose = Program((Step("norm", norm), Step("fc", product)))
    free = reconcile(predict(loose, H200), apart).items[0]
    assert {item.status for item in free.advice if item.rule == "unfused neighbour"} == {"possible"}


def test_unfused_kernels_of_one_step() -> None:
    """A norm as five elementwise passes: 10 passes over the tensor where 2 would do."""
    work = replace(ops.rmsnorm(8192, 4096, dtype="bf16"), name="norm")
    tensor = 8192 * 4096 * 2.0
    kernels = ("pow", "mean", "rsqrt", "mul", "mul_weight")
    observed = [profiled(2 * tensor / HBM / 0.9, "norm", flops=3e7, moved=2 * tensor, kernel=name) for name in kernels]
    (item,) = reconcile(predict(work, H200), observed).items
    assert item.top is not None
    assert (item.top.rule, item.top.move) == ("unfused", "fuse with the adjacent kernel")
    assert item.gap.excess_bytes == pytest.approx(5.0, rel=0.01)
    assert item.top.gain == pytest.approx(item.gap.measured - achievable(work))


def test_fp32_where_tensor_cores_could_serve() -> None:
    observed = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}["gemm_fp32_4096"]
    work = ops.gemm(4096, 4096, 4096, dtype="fp32")
    advice = top(gap_of(work, observed))
    assert (advice.rule, advice.status, advice.move) == ("no tensor cores", "shown", "use tensor cores")
    after = observed.flops["vector.fp32"] / H200.peak("tensor.tf32").value / 0.9 + launch(work)
    assert advice.gain == pytest.approx(observed.median - after)


def test_bf16_products_on_the_vector_units() -> None:
    work = ops.gemm(2048, 2048, 2048, dtype="bf16")
    flops = 2 * 2048.0**3
    advice = top(
        gap_of(work, profiled(flops / 50e12, flops=flops, moved=4e7, counters={"fma_busy": 0.8, "issue": 0.85}))
    )
    assert advice.rule == "no tensor cores"
    assert advice.gain is not None
    assert advice.gain > 0.9 * flops / 50e12


def test_too_small_a_problem() -> None:
    work = ops.gemm(256, 256, 256, dtype="bf16")
    item = profiled(5e-6, flops=2 * 256.0**3, moved=4e5, engine="tensor.bf16", counters={"blocks": 8.0, "waves": 0.06})
    advice = top(gap_of(work, item))
    assert (advice.rule, advice.status) == ("too small", "shown")
    assert advice.gain == pytest.approx(5e-6 * (1 - 0.06))  # per problem, when the machine is filled with them
