"""GPU probes without a GPU: a device made of NumPy computes what the kernels compute, torch on the CPU the products."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError, RidgelineError
from ridgeline.core.observation import from_document
from ridgeline.machines.load import load
from ridgeline.measure.cuda import compute as cuda_compute
from ridgeline.measure.cuda import conditions as conditions_cuda
from ridgeline.measure.cuda import device as cuda_device
from ridgeline.measure.cuda import energy as cuda_energy
from ridgeline.measure.cuda import launch as cuda_launch
from ridgeline.measure.cuda import memory as cuda_memory
from ridgeline.measure.cuda import probes as cuda
from ridgeline.measure.cuda.conditions import Watch
from ridgeline.measure.cuda.energy import Load
from ridgeline.measure.protocol import Probe, interleave

MIB = 1 << 20
BASE = 1 << 20  # where the addresses of the fake device begin
OUTPUT = {"read": 3, "multiply_adds": 4, "specials": 3}  # the argument a kernel writes to; the first elsewhere


class FakeGpu:
    """Computes what the device would; every launch takes a fixed time on its own clock."""

    name = "Fake GPU"

    def __init__(self, sms: int = 2, l2: int = 4 * MIB, memory: int = 96 * MIB, launch_time: float = 0.02) -> None:
        self.sms, self.l2 = sms, l2
        self.memory = np.zeros(memory, np.uint8)
        self.used = 0
        self.launch_time = launch_time
        self.launched: list[str] = []
        self.now_ = 0.0
        self.spoil = ""  # a kernel that shall compute wrongly
        self.kind = ""
        self.recording: list[Callable[[], None]] | None = None

    def now(self) -> float:
        return self.now_

    def free(self) -> int:
        return len(self.memory) - self.used

    def allocate(self, size: int) -> int:
        at = self.used
        self.used += -(-size // 256) * 256
        assert self.used <= len(self.memory), "the fake GPU is full"
        return BASE + at

    def pinned(self, size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    def view(self, at: Any, dtype: Any, count: int) -> NDArray[Any]:
        start = int(at) - BASE
        return self.memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)

    def upload(self, at: int, values: NDArray[Any]) -> None:
        self.view(at, np.uint8, values.nbytes)[:] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)

    def download(self, at: int, dtype: Any, count: int) -> NDArray[Any]:
        return self.view(at, dtype, count).copy()

    def copy(self, target: int, source: int, size: int) -> None:
        def bytes_at(at: int) -> NDArray[np.uint8]:
            if BASE <= at < BASE + len(self.memory):
                return self.view(at, np.uint8, size)
            import ctypes

            return np.frombuffer((ctypes.c_uint8 * size).from_address(at), np.uint8)

        bytes_at(target)[:] = bytes_at(source)
        self.now_ += self.launch_time

    def launch(self, kernel: str, grid: int, block: int, *arguments: Any, shared: int = 0) -> None:
        def work() -> None:
            name, _, template = kernel.partition("<")
            self.kind = template[:1]
            numbers = [int(text) for text in re.findall(r"\b\d+\b", template)]
            getattr(self, f"run_{name}")(grid, block, numbers, *arguments)
            self.launched.append(kernel)
            self.now_ += self.launch_time
            if name == self.spoil:
                self.view(arguments[OUTPUT.get(name, 0)], np.uint8, 2)[:] ^= 0x55

        if self.recording is None:
            work()
        else:
            self.recording.append(work)

    def record(self, works: Sequence[Callable[[], None]]) -> Callable[[], None]:
        self.recording = recorded = []
        for work in works:
            work()
        self.recording = None

        def replay() -> None:
            for each in recorded:
                each()

        return replay

    def elapsed(self, work: Callable[[], None], before: Callable[[], None] | None = None, spin: int = 0) -> float:
        if before is not None:
            before()
        start = self.now_
        work()
        return max(self.now_ - start, 1e-6)

    def synchronize(self) -> None:
        self.now_ += 1e-6

    # -- kernels ------------------------------------------------------------------------------------------

    def run_fill_normal(self, grid: int, block: int, _: list[int], target: Any, pairs: Any, seed: Any) -> None:
        values = np.random.default_rng(int(seed)).standard_normal(min(2 * int(pairs), MIB // 4), np.float32)
        self.view(target, np.float32, 2 * int(pairs))[:] = np.resize(values, 2 * int(pairs))

    def run_checksums(self, grid: int, block: int, _: list[int], source: Any, sums: Any) -> None:
        words = self.view(source, np.uint32, grid * MIB // 4).reshape(grid, -1)
        self.view(sums, np.uint32, grid)[:] = words.sum(axis=1, dtype=np.uint32)

    def run_read(self, grid: int, block: int, numbers: list[int], source: Any, tiles: Any, passes: Any, sums: Any, mask: Any) -> None:  # fmt: skip
        words = self.view(source, np.uint32, int(tiles) * block * numbers[0] * 4)
        self.view(sums, np.uint32, 1)[:] += np.uint32(int(words.sum(dtype=np.uint64)) * int(passes) & 0xFFFFFFFF)

    def run_write(
        self, grid: int, block: int, numbers: list[int], target: Any, tiles: Any, table: Any, span: Any
    ) -> None:
        words = self.view(target, np.uint32, int(tiles) * block * numbers[0] * 4)
        words[:] = np.resize(self.view(table, np.uint32, int(span) * 4), len(words))

    def run_copy(self, grid: int, block: int, numbers: list[int], target: Any, source: Any, tiles: Any) -> None:
        count = int(tiles) * block * numbers[0] * 4
        self.view(target, np.uint32, count)[:] = self.view(source, np.uint32, count)

    def run_triad(self, grid: int, block: int, numbers: list[int], a: Any, b: Any, c: Any, s: Any, tiles: Any) -> None:
        count = int(tiles) * block * numbers[0] * 4
        left, right = self.view(b, np.float32, count), self.view(c, np.float32, count)
        self.view(a, np.float32, count)[:] = left + s * right

    def run_read_l1(self, grid: int, block: int, numbers: list[int], source: Any, window: Any, passes: Any, sums: Any, mask: Any) -> None:  # fmt: skip
        words = self.view(source, np.uint32, grid * int(window) // 4)
        rounds = int(passes) * numbers[0] * numbers[1] * 16 // int(window)
        self.view(sums, np.uint32, 1)[:] += np.uint32(int(words.sum(dtype=np.uint64)) * rounds & 0xFFFFFFFF)

    run_read_shared = run_read_l1

    def run_link(self, grid: int, block: int, _: list[int], base: Any, stride: Any, following: Any, nodes: Any) -> None:
        at = self.view(base, np.uint64, int(nodes) * int(stride) // 8).reshape(int(nodes), -1)
        at[:, 0] = int(base) + self.view(following, np.uint32, int(nodes)).astype(np.uint64) * int(stride)

    def run_chase(self, grid: int, block: int, _: list[int], state: Any, steps: Any) -> None:
        held = self.view(state, np.uint64, 2)
        at = int(held[0])
        for _step in range(int(steps)):
            at = int(self.view(at, np.uint64, 1)[0])
        held[:] = at, int(steps) * 30

    def run_chase_shared(self, grid: int, block: int, _: list[int], state: Any, steps: Any, following: Any, nodes: Any) -> None:  # fmt: skip
        held, ahead = self.view(state, np.uint64, 2), self.view(following, np.uint32, int(nodes))
        at = int(held[0])
        for _step in range(int(steps)):
            at = int(ahead[at])
        held[:] = at, int(steps) * 20

    def run_multiply_adds(self, grid: int, block: int, numbers: list[int], seeds: Any, span: Any, factor: Any, steps: Any, out: Any, cycles: Any) -> None:  # fmt: skip
        kind = {"d": np.float64, "f": np.float32, "u": np.float16}[self.kind]
        lanes, chains, span = (2 if self.kind == "u" else 1), numbers[-1], int(span)
        values = self.view(seeds, kind, span * lanes).reshape(span, lanes).astype(np.float64)
        a = float(self.view(factor, kind, 1)[0])
        thread = np.arange(min(64, grid * block))
        x = values[(thread[:, None] * chains + np.arange(chains)) % span]
        b = values[(thread + span // 2) % span][:, None, :]
        for _step in range(int(steps)):
            x = (x * a + b).astype(kind).astype(np.float64)
        total = x[:, 0]
        for j in range(1, chains):
            total = (total + x[:, j]).astype(kind).astype(np.float64)
        self.view(out, kind, total.size)[:] = total.reshape(-1)
        self.view(cycles, np.uint64, 2 * grid).reshape(-1, 2)[:] = int(steps) * 10, int(steps) * 5

    def run_specials(self, grid: int, block: int, numbers: list[int], seeds: Any, span: Any, steps: Any, out: Any, cycles: Any) -> None:  # fmt: skip
        self.view(out, np.float32, 64)[:] = (0.6411857445, 1.0)[numbers[0]]
        self.view(cycles, np.uint64, 2 * grid).reshape(-1, 2)[:] = int(steps) * 10, int(steps) * 5

    def run_nothing(self, grid: int, block: int, _: list[int]) -> None:
        pass

    def run_spin(self, grid: int, block: int, _: list[int], cycles: Any) -> None:
        pass


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


@pytest.fixture
def memory(gpu: FakeGpu) -> cuda_memory.Memory:
    return cuda_memory.Memory(gpu)


def named(probes: Sequence[Probe], text: str) -> Probe:
    return next(probe for probe in probes if text in probe.name)


# -- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "bytes_", "flops"), [("read", 4, 0), ("write", 4, 0), ("copy", 8, 0), ("triad", 12, 2)]
)
def test_a_stream_counts_every_array_once(mix: str, bytes_: int, flops: int) -> None:
    """Per fp32 element: 4 B for each array read or written, two flops for b + s c."""
    counted = cuda_memory.stream_work(mix, 4 * 1000)
    assert counted.bytes == 1000 * bytes_
    assert counted.flops == 1000 * flops


def test_every_memory_probe_gives_the_right_answer(memory: cuda_memory.Memory, gpu: FakeGpu) -> None:
    probes = cuda_memory.streams(memory, quick=True)
    assert {probe.settings["mix"] for probe in probes} == {"read", "write", "copy", "triad"}
    assert {probe.target for probe in probes} == {"hbm", "l2", "l1"}
    done = interleave(probes, 1, gpu, least=0.01, warm=0.0)
    assert not done.missing
    for row in done.series:
        assert row.probe.settings["state"] in ("cold", "resident")
        assert row.probe.settings["burst"] is True
        assert float(row.probe.work.bytes) == row.probe.settings["bytes"]


def test_cold_slices_take_turns(memory: cuda_memory.Memory, gpu: FakeGpu) -> None:
    """A slice must not be read again before the others have pushed it out of the L2."""
    probe = named(cuda_memory.streams(memory, quick=True), "hbm read")
    assert isinstance(probe.call, cuda_memory.Loop)
    assert len(probe.call.works) * probe.settings["bytes"] > 4 * gpu.l2


@pytest.mark.parametrize("kernel", ["read", "write", "copy", "triad"])
def test_a_wrong_answer_names_the_probe(memory: cuda_memory.Memory, gpu: FakeGpu, kernel: str) -> None:
    probe = named(cuda_memory.streams(memory, quick=True), f"hbm {kernel}")
    gpu.spoil = kernel
    assert probe.check is not None
    with pytest.raises(RidgelineError, match=f"probe hbm {kernel}"):
        probe.check()


def test_checksums_are_themselves_checked(gpu: FakeGpu) -> None:
    gpu.spoil = "checksums"
    gpu.run_checksums = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(RidgelineError, match="checksum"):
        cuda_memory.Memory(gpu)


def test_a_small_gpu_says_so() -> None:
    with pytest.raises(RidgelineError, match="too little"):
        cuda_memory.Memory(FakeGpu(memory=16 * MIB))


def test_resident_sets_load_every_sm_alike() -> None:
    sizes = cuda_memory.resident_sizes(60 * MIB, 132, quick=False)
    assert all(size % (132 * 16384) == 0 for size in sizes)
    assert sizes[0] < 3 * MIB
    assert sizes[-1] > 200 * MIB
    for size in sizes:
        for variant in cuda_memory.resident_variants(quick=False):
            assert size % (variant.threads * variant.unroll * cuda_memory.VECTOR) == 0


def test_variants_divide_a_mebibyte() -> None:
    """Sets are whole MiB, so every tile must divide one; and every kernel must have been compiled."""
    compiled = cuda_device.SOURCES["memory.cu"]
    for mix in cuda_memory.MIXES:
        for quick in (True, False):
            for variant in cuda_memory.variants(mix, quick):
                assert MIB % (variant.threads * variant.unroll * cuda_memory.VECTOR) == 0
                assert variant.threads % cuda_memory.SPAN == 0
                assert f"{mix}<{variant.unroll}, {variant.path}>" in compiled
    for variant in cuda_memory.resident_variants(False):
        assert f"read<{variant.unroll}, {variant.path}>" in compiled


def test_latency_goes_on_where_it_stopped(memory: cuda_memory.Memory, gpu: FakeGpu) -> None:
    probes = cuda_memory.latencies(memory, quick=True)
    assert [probe.target for probe in probes] == ["latency.l1", "latency.l1", "latency.l2", "latency.hbm"]
    for probe in probes:
        assert probe.check is not None
        for _ in range(3):
            assert probe.call(50) == pytest.approx(gpu.launch_time * 50 / 64)  # type: ignore[comparison-overlap]
        probe.check()
        assert probe.settings["cycles"] in (20, 30)
    chase = probes[-1].call
    assert isinstance(chase, cuda_memory.Chase)
    assert chase.steps == 3 * 64
    assert len(set(chase.order.tolist())) == chase.nodes
    chase.steps += 1
    with pytest.raises(RidgelineError, match="wrong place"):
        chase.check()


def test_a_resident_set_is_touched_before_the_clock_starts(memory: cuda_memory.Memory, gpu: FakeGpu) -> None:
    probe = named(cuda_memory.latencies(memory, quick=True), "latency l2")
    gpu.launched.clear()
    probe.call(32)
    assert gpu.launched == ["read<1, 2>", "chase<2>"]


def test_host_copies_go_both_ways_and_are_compared(memory: cuda_memory.Memory, gpu: FakeGpu) -> None:
    probes = cuda_memory.host_copies(memory, quick=True)
    assert {probe.settings["way"] for probe in probes} == {"host to device", "device to host"}
    for probe in probes:
        probe.call(1)
        assert probe.check is not None
        probe.check()
        assert probe.work.bytes_at("link") == probe.settings["bytes"]


# -- arithmetic ------------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_compute, "STEPS", 64)


@pytest.mark.usefixtures("short")
def test_chains_count_two_flops_and_are_followed(gpu: FakeGpu) -> None:
    _, probes = cuda_compute.arithmetic(gpu, quick=True)
    assert [probe.target for probe in probes] == ["vector.fp64", "vector.fp32", "vector.fp16", "special.fp32", "special.fp32"]  # fmt: skip
    for probe in probes:
        assert probe.check is not None
        probe.check()
        chain = probe.call
        assert isinstance(chain, cuda_compute.Chain)
        per = {"vector.fp64": 2, "vector.fp32": 2, "vector.fp16": 4, "special.fp32": 1}[probe.target]
        assert probe.work.flops == per * chain.grid * chain.threads * chain.chains * 64
        assert probe.settings["sm_clock_seen"] == pytest.approx(2e9)


@pytest.mark.usefixtures("short")
def test_wrong_chains_are_refused(gpu: FakeGpu) -> None:
    _, probes = cuda_compute.arithmetic(gpu, quick=True)
    gpu.run_multiply_adds = lambda grid, block, numbers, seeds, span, factor, steps, out, cycles: gpu.view(  # type: ignore[method-assign]
        out, np.uint8, 512
    ).fill(1)
    assert probes[1].check is not None
    with pytest.raises(RidgelineError, match="fma fp32"):
        probes[1].check()


def test_half_of_the_sms_does_half_the_work(gpu: FakeGpu) -> None:
    unit = cuda_compute.Arithmetic(gpu)
    assert 2 * unit.multiply_adds("fp32", 256, 4, 8, sms=1).operations == unit.multiply_adds("fp32", 256, 4, 8).operations  # fmt: skip


@pytest.fixture
def library() -> cuda_device.Library:
    torch = pytest.importorskip("torch")
    return cuda_device.Library(torch, "cpu")


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")
@pytest.mark.parametrize("dtype", ["fp64", "tf32", "bf16", "fp16", "int8"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_products_are_compared_with_fp64(library: cuda_device.Library, dtype: str, layout: str) -> None:
    product = cuda_compute.Product(library, dtype, 48, 32, 64, layout)
    assert product(2) > 0
    product.check()
    assert product.work.flops == 2 * 48 * 32 * 64
    stored = {"fp64": 8, "tf32": 4, "bf16": 2, "fp16": 2, "int8": 1}[dtype]
    written = 4 if dtype == "int8" else stored
    assert product.work.bytes == stored * (48 * 64 + 64 * 32) + written * 48 * 32


def test_a_wrong_product_is_refused(library: cuda_device.Library) -> None:
    product = cuda_compute.Product(library, "bf16", 48, 32, 64)
    right = product.call
    product.call = lambda: right() * 1.1
    with pytest.raises(RidgelineError, match="gemm bf16"):
        product.check()


def test_a_replay_is_judged_by_what_it_leaves(library: cuda_device.Library) -> None:
    product = cuda_compute.Product(library, "bf16", 48, 32, 64)
    product.check(library.record([product.call]))
    with pytest.raises(RidgelineError, match="gemm bf16"):
        product.check(lambda: None)


def test_without_triton_the_library_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_device, "package", lambda name: None)
    assert cuda_device.triton_matmul() is None


def test_the_best_shape_is_kept_with_the_sweep(library: cuda_device.Library) -> None:
    product, table = cuda_compute.best_product(library, "bf16", 2, quick=False, scale=64)
    assert len(table) == len(cuda_compute.shapes("bf16", 2, False, 64)) == 27
    best = sorted(table, key=lambda row: -row["rate"])[: cuda_compute.FINALISTS]
    shape = {"m": product.m, "n": product.n, "k": product.k, "layout": product.layout}
    assert shape in [{key: row[key] for key in shape} for row in best]
    assert json.loads(json.dumps(cuda_compute.product_settings(product, table)))["sweep"] == table


def test_whole_waves_are_among_the_shapes() -> None:
    """132 SMs with tiles of 128 x 256: 8448 x 8192 makes 66 x 32 tiles, sixteen waves exactly."""
    assert (8448, 8192, 8192, "nt") in cuda_compute.shapes("bf16", 132, quick=False)
    assert {layout for *_, layout in cuda_compute.shapes("fp8", 132, quick=False)} == {"nt"}


def test_the_size_sweep_says_when_it_is_cold(library: cuda_device.Library) -> None:
    small, large = cuda_compute.by_size(library, "bf16", l2=200_000, quick=False, largest=256)
    assert small.settings["state"] == "cold"
    assert large.settings["state"] == "cold"
    assert small.prepare is not None
    small.prepare()
    assert small.call(3) is not None
    assert small.check is not None
    small.check()


# -- launches --------------------------------------------------------------------------------------------------


def test_launches_are_told_apart(gpu: FakeGpu) -> None:
    probes = cuda_launch.launches(gpu, gpu)
    assert [probe.settings["variant"] for probe in probes] == ["queued", "graph", "host", "graph launch", "synchronous"]
    for probe in probes:
        if probe.prepare:
            probe.prepare()
        assert probe.call(3) == pytest.approx(3 * gpu.launch_time, rel=1e-3)  # type: ignore[comparison-overlap]


def test_the_dispatcher_is_checked(library: cuda_device.Library) -> None:
    (probe,) = cuda_launch.dispatches(library)
    probe.call(2)
    assert probe.check is not None
    probe.check()
    assert probe.settings["variant"] == "dispatcher"


# -- holding a load, fitting energy ----------------------------------------------------------------------------


class Falling:
    """A load that begins fast and settles, as a GPU does when it meets its power limit."""

    def __init__(self) -> None:
        self.time, self.calls = 0.0, 0

    def now(self) -> float:
        return self.time

    def __call__(self, loops: int) -> float:
        self.calls += loops
        each = 0.01 * (1.2 - 0.2 * np.exp(-self.time / 0.3))
        self.time += each * loops
        return float(each * loops)


def test_a_load_is_held_until_it_has_settled() -> None:
    load = Falling()
    held = cuda_energy.hold(load, load, Watch(None), least=1.0, most=20.0)
    assert held.steady
    assert 1.0 <= load.time < 4.0
    assert held.settled[-1] == pytest.approx(0.012, rel=0.02)
    assert held.windows[0] < held.settled[0], "the burst at the beginning is not among the settled windows"
    assert held.power is None
    assert held.rate == pytest.approx(1 / 0.012, rel=0.02)


def test_a_load_that_never_settles_says_so() -> None:
    load = Falling()
    times = iter(np.tile([0.01, 0.02], 5000))

    def restless(loops: int) -> float:
        load.time += (took := float(next(times)) * loops)
        return took

    held = cuda_energy.hold(restless, load, Watch(None), least=0.5, most=2.0)
    assert not held.steady
    assert load.time >= 2.0


def test_energy_and_static_power_come_out_of_made_up_loads() -> None:
    """P = 100 W + 20 pJ/B x B/s + 1 pJ/flop x flop/s, exactly."""
    rates = [{"hbm": 4e12}, {"hbm": 2e12}, {"vector.fp32": 5e13}, {"vector.fp32": 2.5e13}, {"hbm": 1e12}]
    cost = {"hbm": 20e-12, "vector.fp32": 1e-12}
    loads = [Load("", 100 + sum(cost[name] * rate for name, rate in row.items()), row) for row in rates]
    fitted = cuda_energy.fit(loads)
    assert fitted is not None
    assert fitted.static == pytest.approx(100)
    assert fitted.energy == pytest.approx(cost)
    assert fitted.residual == pytest.approx(0, abs=1e-9)
    assert cuda_energy.fit(loads[:1]) is None


def test_energy_that_cannot_be_told_apart_is_named() -> None:
    loads = [Load("", 200, {"a": 1e12}), Load("", 300, {"a": 2e12}), Load("", 90, {"b": 1e12}), Load("", 80, {"b": 2e12})]  # fmt: skip
    fitted = cuda_energy.fit(loads)
    assert fitted is not None
    assert fitted.unresolved == ["b"]
    assert set(fitted.energy) == {"a"}


# -- conditions ------------------------------------------------------------------------------------------------


def test_nvidia_smi_is_read() -> None:
    row = "1980, 3201, 34, 121.34, 700.00, Enabled, 580.159.04\n"
    smi = conditions_cuda.Smi(lambda: row)
    assert smi.read() == {"sm_clock": 1.98e9, "memory_clock": 3.201e9, "temperature": 34.0, "power": 121.34}
    assert smi.facts() == {"driver": "580.159.04", "power_limit": 700.0, "ecc": "on"}


def test_what_nvidia_smi_does_not_know_is_absent() -> None:
    smi = conditions_cuda.Smi(lambda: "1980, 3201, 34, [N/A], [Not Supported], [N/A], 580.1\n")
    assert "power" not in smi.read()
    assert smi.facts() == {"driver": "580.1"}
    assert conditions_cuda.smi_row("No devices were found\n") == {}

    def broken() -> str:
        raise subprocess.CalledProcessError(9, "nvidia-smi")

    assert conditions_cuda.Smi(broken).read() == {}


def refuse(*_: Any) -> Any:
    raise RuntimeError("Insufficient Permissions")


def fake_nvml(**more: Any) -> Any:
    """pynvml of a GPU that does not tell its power limit."""
    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: bus.decode(),
        "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1590, 2: 3201}[kind],
        "nvmlDeviceGetTemperature": lambda handle, which: 60,
        "nvmlDeviceGetFieldValues": lambda handle, fields: [
            SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=698_000))
        ],
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 70_000,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4,
        "nvmlSystemGetDriverVersion": lambda: b"580.159.04",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
        "nvmlDeviceGetEnforcedPowerLimit": refuse,
        "nvmlDeviceGetEccMode": lambda handle: [1, 1],
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=4)],
    }
    return SimpleNamespace(**{**answers, **more})


def test_nvml_is_read_and_a_refusal_leaves_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    reader, why = conditions_cuda.reader("0000:00:05.0")
    assert reader is not None
    assert why == ""
    facts = reader.facts()
    assert facts == {"driver": "580.159.04", "cuda_driver": "13.0", "ecc": "on", "other_processes": [4]}
    told = reader.read()
    assert told["power"] == 698
    assert told["reasons"] == ["power cap"]


def test_no_nvml_and_no_nvidia_smi_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(conditions_cuda.shutil, "which", lambda name: None)
    assert conditions_cuda.reader("0000:00:05.0") == (
        None,
        "pynvml is not installed, and nvidia-smi is not on the PATH",
    )

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=refuse))
    reader, why = conditions_cuda.reader("0000:00:05.0")
    assert reader is None
    assert "Insufficient Permissions" in why


def test_summary_speaks_of_the_spans_of_one_probe() -> None:
    watch = Watch(None)
    watch.seen = [
        (float(at), {"sm_clock": clock, "power": 700.0, "reasons": ["power cap"]})
        for at, clock in enumerate([1980e6, 1600e6, 1500e6, 1980e6])
    ]
    told = conditions_cuda.summary(watch.during([(0.5, 2.5)]))
    assert told["readings"] == 2
    assert told["sm_clock"] == {"least": 1500e6, "median": 1550e6, "most": 1600e6}
    assert told["clock_held_by"] == ["power cap"]


def test_power_by_the_energy_counter_or_by_readings() -> None:
    counted = [(0.05 * step, {"energy": 70.0 * (step // 2), "power": 1.0}) for step in range(40)]
    power, how = conditions_cuda.mean_power(counted) or (0, "")
    assert power == pytest.approx(700)
    assert how == "energy counter"
    assert conditions_cuda.mean_power([(0.0, {"power": 90.0}), (1.0, {"power": 110.0})]) == (100, "mean of power readings")  # fmt: skip
    assert conditions_cuda.mean_power([]) is None


def test_watch_reads_in_a_thread() -> None:
    class Counting:
        via, count = "test", 0

        def facts(self) -> dict[str, Any]:
            return {}

        def read(self) -> dict[str, Any]:
            self.count += 1
            return {"power": float(self.count)}

    with Watch(Counting(), period=0.001) as watch:
        for _ in range(1000):
            if len(watch.seen) >= 3:
                break
            time.sleep(0.005)
    assert len(watch.seen) >= 3


# -- the whole run ---------------------------------------------------------------------------------------------


def session(gpu: FakeGpu, library: cuda_device.Library | None, **more: Any) -> cuda.Session:
    facts = {"device": gpu.name, "sms": gpu.sms, "l2_bytes": gpu.l2, "data": cuda.DATA}
    settings: dict[str, Any] = {"machine": None, "watch": Watch(None), "clock": gpu, "quick": True, "facts": facts, "gaps": []}  # fmt: skip
    return cuda.Session(gpu, library, **{**settings, **more})


@pytest.mark.usefixtures("short")
def test_a_quick_run_measures_everything_once(gpu: FakeGpu) -> None:
    steps: list[tuple[int, int, str]] = []
    found = cuda.run(session(gpu, None, on_progress=lambda *step: steps.append(step)))
    targets = {each.target for each in found}
    assert {"hbm", "l2", "l1", "latency.l1", "latency.l2", "latency.hbm", "pcie", "launch"} <= targets
    assert {"vector.fp64", "vector.fp32", "vector.fp16", "special.fp32"} <= targets
    assert all("energy" in each.conditions["gaps"][-1] for each in found)
    assert len({each.name for each in found}) == len(found)
    assert steps
    for each in found:
        again = from_document(json.loads(json.dumps(to_document(each))))
        assert again.samples == each.samples


@pytest.mark.usefixtures("short")
def test_a_rate_above_the_ceiling_is_a_finding(gpu: FakeGpu) -> None:
    gpu.launch_time = 1e-7
    machine = load("h200-sxm")
    one = session(gpu, None, machine=machine)
    probe = Probe(
        "hbm read", "hbm", lambda loops: 1e-6 * loops, cuda_memory.stream_work("read", 64 * MIB), {"mix": "read"}
    )
    cuda.keep(one, interleave([probe], 2, gpu, least=1e-7, warm=0))
    told = cuda.finished(one, one.found[0])
    assert told.settings["share_of_ceiling"] > 10
    assert told.best_bandwidth == pytest.approx(64 * MIB / 1e-6), "never clamped"
    assert "finding" in told.notes[-1]


def test_a_product_below_its_peak_says_why() -> None:
    machine = load("h200-sxm")
    during = {"sm_clock": {"median": 1.5e9}, "power": {"median": 698.0}, "clock_held_by": ["power cap"]}
    one = cuda.Session(None, None, machine, Watch(None), FakeGpu(), False, {}, [])
    seen = cuda.Observation(
        "gemm bf16 sustained", "tensor.bf16", (1e-3,), cuda_compute.work(matrix={"p": (780e9,)}),
        {"burst": False}, {"during": during, "power_limit": 700.0},
    )  # fmt: skip
    (note,) = cuda.finished(one, seen).notes
    assert note == (
        "below 90 % of the ceiling: SM clock 1.5 GHz where the peak is rated at 1.83 GHz; power 698 W of 700 W allowed; "
        "the driver held the clock for: power cap"
    )


def test_a_sweep_point_above_the_ranking_is_a_finding() -> None:
    one = cuda.Session(None, None, None, Watch(None), FakeGpu(), False, {}, [])
    counted = cuda_compute.work(matrix={"p": (800e9,)})
    times = {"gemm bf16 burst": 1e-3, "gemm bf16 1024^3": 2e-3, "gemm bf16 16384^3": 0.9e-3}
    one.found = [
        cuda.Observation(name, "tensor.bf16", (time,), counted, {} if "burst" in name else {"sweep_over": "size"})
        for name, time in times.items()
    ]
    cuda.mark_sweep(one)
    assert [len(each.notes) for each in one.found] == [0, 0, 1]
    assert "finding: 11.1% above" in one.found[2].notes[0]


def test_another_process_on_the_gpu_is_reported() -> None:
    one = cuda.Session(None, None, None, Watch(None), FakeGpu(), False, {"other_processes": [4]}, [])
    seen = cuda.Observation("x", "hbm", (1e-3,))
    assert "1 other process held the GPU" in cuda.finished(one, seen).notes[-1]


@pytest.mark.usefixtures("short")
def test_ctrl_c_keeps_what_is_done(gpu: FakeGpu) -> None:
    count = 0

    def impatient(done: int, total: int, label: str) -> None:
        nonlocal count
        count += label.startswith("hbm")
        if count > 3:
            raise KeyboardInterrupt

    found = cuda.run(session(gpu, None, on_progress=impatient))
    assert found
    assert any("Ctrl-C" in gap for gap in found[0].conditions["gaps"])


def test_ctrl_c_before_anything_says_so(gpu: FakeGpu) -> None:
    def at_once(done: int, total: int, label: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InputError, match="stopped before"):
        cuda.run(session(gpu, None, on_progress=at_once))


def test_products_short_and_sustained(library: cuda_device.Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_compute, "PRODUCTS", {"bf16": 1e-2, "int8": 0.0, "fp8": 2e-2})
    hold = cuda_energy.hold
    monkeypatch.setattr(cuda_energy, "hold", lambda call, clock, watch, least, most: hold(call, clock, watch, 0.05, 0.1, 0.005))  # fmt: skip
    one = cuda.Session(None, library, None, Watch(None), cuda.REAL, True, {}, [], sms=2, scale=64)
    products, tables = cuda.rank_products(one)
    assert set(products) >= {"bf16", "int8"}
    cuda.sustained(one, products, tables)
    held = next(each for each in one.found if each.target == "tensor.bf16")
    assert held.settings["burst"] is False
    assert len(held.samples) + len(held.settings["settling_samples"]) == held.settings["windows"]
    probe = cuda.burst(products["bf16"], tables["bf16"])
    assert probe.settings["burst"] is True


def test_products_stand_between_probes_that_draw_little() -> None:
    targets = ["hbm", "tensor.bf16", "tensor.fp8", "tensor.fp64", "latency.l1", "launch"]
    order = cuda.spaced([Probe(target, target, lambda loops: None) for target in targets])
    assert [probe.name for probe in order] == [
        "latency.l1",
        "tensor.bf16",
        "launch",
        "tensor.fp8",
        "tensor.fp64",
        "hbm",
    ]


@pytest.mark.usefixtures("short")
def test_power_is_read_for_every_kind_of_load(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = cuda_memory.Memory(gpu)
    unit, chains = cuda_compute.arithmetic(gpu, quick=True)
    ready = [*cuda_memory.streams(memory, quick=True), *chains]
    powers = iter(range(500, 0, -7))

    def hold(call: Callable[[int], float], *_: Any) -> cuda_energy.Held:
        each = call(4) / 4
        return cuda_energy.Held([each] * 20, [each] * 10, True, (0.0, 1.0), float(next(powers)), "test", 1 / each)

    monkeypatch.setattr(cuda_energy, "hold", hold)
    meter = conditions_cuda.Smi(lambda: "")
    one = session(gpu, None, watch=Watch(meter), quick=False)
    loads = cuda.held_loads(one, memory, unit, ready)
    assert {target for load in loads for target in load.rates} == {"hbm", "l2", "l1", "vector.fp64", "vector.fp32", "vector.fp16"}  # fmt: skip
    assert sum("half of the time" in load.name for load in loads) == 5
    cuda.add_energy(one, loads)
    energy = one.found[-1]
    assert energy.target == "energy"
    assert len(energy.settings["loads"]) == len(loads)
    assert json.dumps(to_document(energy))
    cuda.add_energy(one, loads[:1])
    assert "too few" in one.gaps[-1]


def test_a_pause_is_as_long_as_the_work(gpu: FakeGpu) -> None:
    call = cuda.halved(gpu, [lambda: gpu.launch("nothing", 1, 1)])
    assert call(3) == pytest.approx(6 * gpu.launch_time)
    assert gpu.launched[-2:] == ["nothing", "spin"]


def test_a_device_that_fails_is_named(gpu: FakeGpu) -> None:
    one = session(gpu, None)

    def broken(loops: int) -> float:
        raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered\nmore")

    with pytest.raises(RidgelineError, match="probe x: the device failed: cudaErrorIllegalAddress"):
        one.watched(Probe("x", "hbm", broken)).call(1)


# -- what may be missing ---------------------------------------------------------------------------------------


def packages(monkeypatch: pytest.MonkeyPatch, **present: Any) -> None:
    monkeypatch.setattr(cuda_device, "package", lambda name: present.get(name))


def test_nothing_to_measure_with(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch)
    with pytest.raises(InputError, match=r"cupy .* or torch .* neither is installed"):
        cuda.measure()


def fake_torch(available: bool) -> Any:
    return SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: available, set_device=lambda index: None))


def fake_cupy(count: Callable[[], int]) -> Any:
    return SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=count)))


def no_driver() -> int:
    raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient\nsecond line")


@pytest.mark.parametrize("count", [lambda: 0, no_driver])
def test_no_gpu_is_one_message(monkeypatch: pytest.MonkeyPatch, count: Callable[[], int]) -> None:
    packages(monkeypatch, cupy=fake_cupy(count), torch=fake_torch(False))
    with pytest.raises(InputError, match="no CUDA GPU can be measured here") as told:
        cuda.measure()
    assert "\n" not in str(told.value)
    assert "measure cpu" in str(told.value)


def test_torch_alone_leaves_a_named_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, torch=fake_torch(True))
    own, library, gaps = cuda_device.open_device()
    assert own is None
    assert library is not None
    assert gaps == ["memory, FMA, special-function, launch and copy probes: cupy is not installed"]


def test_cupy_whose_compiler_fails_leaves_a_named_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, cupy=fake_cupy(lambda: 1), torch=fake_torch(True))

    def fail(cupy: Any, index: int) -> None:
        raise RuntimeError("libnvrtc.so: cannot open shared object file\n...")

    monkeypatch.setattr(cuda_device, "CupyDevice", fail)
    _, _, gaps = cuda_device.open_device()
    assert gaps == [
        "memory, FMA, special-function, launch and copy probes: libnvrtc.so: cannot open shared object file"
    ]


def test_the_catalog_is_found_without_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    from ridgeline.machines import files as machines

    def missing(name: str) -> None:
        raise ImportError("platformdirs")

    monkeypatch.setattr(machines, "by_driver_name", missing)
    found = cuda.known("NVIDIA H200")
    assert found is not None
    assert found.name == "h200-sxm"
    assert cuda.known("Fake GPU") is None


def test_every_kernel_named_is_in_its_file() -> None:
    for source, names in cuda_device.SOURCES.items():
        text = (cuda_device.KERNELS / source).read_text()
        assert "#include" not in text, "NVRTC finds no headers on a machine without the toolkit"
        for name in names:
            assert re.search(rf"void {re.escape(name.partition('<')[0])}\(", text), name


def test_a_benchmark_writes_its_table(tmp_path: Path) -> None:
    """The script that made the H200's numbers runs from a plain checkout and says what is missing here."""
    script = Path(__file__).parents[2] / "benchmarks" / "cuda_ceilings.py"
    done = subprocess.run(
        [sys.executable, str(script), "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 2)
    if done.returncode == 2:
        assert "Traceback" not in done.stderr
        assert "GPU" in done.stderr
