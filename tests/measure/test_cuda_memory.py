"""Memory probes of a GPU without a GPU: right bytes, right answers, wrong ones refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fake_gpu import MIB, FakeGpu

from ridgeline.core.errors import RidgelineError
from ridgeline.measure.cuda import device as devices
from ridgeline.measure.cuda import latency, streams
from ridgeline.measure.cuda import memory as memories
from ridgeline.measure.cuda.memory import Memory
from ridgeline.measure.protocol import Probe, interleave


def named(probes: Sequence[Probe], text: str) -> Probe:
    return next(probe for probe in probes if text in probe.name)


# -- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "bytes_", "flops"), [("read", 4, 0), ("write", 4, 0), ("copy", 8, 0), ("triad", 12, 2)]
)
def test_a_stream_counts_every_array_once(mix: str, bytes_: int, flops: int) -> None:
    """Per fp32 element: 4 B for each array read or written, two flops for b + s c."""
    counted = memories.stream_work(mix, 4 * 1000)
    assert counted.bytes == 1000 * bytes_
    assert counted.flops == 1000 * flops


def test_every_memory_probe_gives_the_right_answer(memory: Memory, gpu: FakeGpu) -> None:
    probes = streams.streams(memory, quick=True)
    assert {probe.settings["mix"] for probe in probes} == {"read", "write", "copy", "triad"}
    assert {probe.target for probe in probes} == {"hbm", "l2", "l1"}
    done = interleave(probes, 1, gpu, min_seconds=0.01, warm_seconds=0.0)
    assert not done.missing
    for row in done.series:
        assert row.probe.settings["state"] in ("cold", "resident")
        assert row.probe.settings["burst"] is True
        assert float(row.probe.work.bytes) == row.probe.settings["bytes"]


def test_cold_slices_take_turns(memory: Memory, gpu: FakeGpu) -> None:
    """A slice must not be read again before the others have pushed it out of the L2."""
    probe = named(streams.streams(memory, quick=True), "hbm read")
    assert isinstance(probe.call, streams.Loop)
    assert len(probe.call.works) * probe.settings["bytes"] > 4 * gpu.l2


@pytest.mark.parametrize("kernel", ["read", "write", "copy", "triad"])
def test_a_wrong_answer_names_the_probe(memory: Memory, gpu: FakeGpu, kernel: str) -> None:
    probe = named(streams.streams(memory, quick=True), f"hbm {kernel}")
    gpu.spoil = kernel
    assert probe.check is not None
    with pytest.raises(RidgelineError, match=f"probe hbm {kernel}"):
        probe.check()


def test_checksums_are_themselves_checked(gpu: FakeGpu) -> None:
    gpu.spoil = "checksums"
    gpu.run_checksums = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(RidgelineError, match="checksum"):
        Memory(gpu)


def test_a_small_gpu_says_so() -> None:
    with pytest.raises(RidgelineError, match="too little"):
        Memory(FakeGpu(memory=16 * MIB))


def test_resident_sets_load_every_sm_alike() -> None:
    sizes = streams.resident_sizes(60 * MIB, 132, quick=False)
    assert all(size % (132 * 16384) == 0 for size in sizes)
    assert sizes[0] < 3 * MIB
    assert sizes[-1] > 200 * MIB
    for size in sizes:
        for variant in memories.resident_variants(quick=False):
            assert size % (variant.tile_bytes) == 0


def test_variants_divide_a_mebibyte() -> None:
    """Sets are whole MiB, so every tile must divide one; and every kernel must have been compiled."""
    compiled = devices.SOURCES["memory.cu"]
    for mix in memories.MIXES:
        for quick in (True, False):
            for variant in memories.variants(mix, quick):
                assert MIB % (variant.tile_bytes) == 0
                assert variant.threads % memories.TABLE_VECTORS == 0
                assert f"{mix}<{variant.unroll}, {variant.path}>" in compiled
    for variant in memories.resident_variants(False):
        assert f"read<{variant.unroll}, {variant.path}>" in compiled


def test_latency_goes_on_where_it_stopped(memory: Memory, gpu: FakeGpu) -> None:
    probes = latency.latencies(memory)
    assert [probe.target for probe in probes] == ["latency.l1", "latency.l1", "latency.l2", "latency.hbm"]
    for probe in probes:
        assert probe.check is not None
        for _ in range(3):
            assert probe.call(50) == pytest.approx(gpu.launch_time * 50 / 64)  # type: ignore[comparison-overlap]
        probe.check()
        assert probe.settings["cycles"] in (20, 30)
    chase = probes[-1].call
    assert isinstance(chase, latency.Chase)
    assert chase.steps == 3 * 64
    assert len(set(chase.order.tolist())) == chase.nodes
    chase.steps += 1
    with pytest.raises(RidgelineError, match="wrong place"):
        chase.check()


def test_a_resident_set_is_touched_before_the_clock_starts(memory: Memory, gpu: FakeGpu) -> None:
    probe = named(latency.latencies(memory), "latency l2")
    gpu.launched.clear()
    probe.call(32)
    assert gpu.launched == ["read<1, 2>", "chase<2>"]


def test_host_copies_go_both_ways_and_are_compared(memory: Memory, gpu: FakeGpu) -> None:
    probes = streams.host_copies(memory, quick=True)
    assert {probe.settings["way"] for probe in probes} == {"host to device", "device to host"}
    for probe in probes:
        probe.call(1)
        assert probe.check is not None
        probe.check()
        assert probe.work.bytes_at("link") == probe.settings["bytes"]
