"""A GPU measurement without a GPU: the plan, the run, its findings, and what may be missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_gpu import MIB, FakeGpu

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError, Interrupted, RidgelineError
from ridgeline.core.notes import NOISE, of_kind
from ridgeline.core.observation import Observation, from_document
from ridgeline.core.work import work
from ridgeline.machines.load import load
from ridgeline.measure.cuda import arithmetic, conditions, power, products, streams
from ridgeline.measure.cuda import device as devices
from ridgeline.measure.cuda import memory as memories
from ridgeline.measure.cuda import probes as cuda
from ridgeline.measure.cuda.conditions import Watch
from ridgeline.measure.cuda.device import Library
from ridgeline.measure.cuda.memory import Memory
from ridgeline.measure.cuda.session import Session
from ridgeline.measure.protocol import REAL, Probe, interleave


def session(gpu: FakeGpu, library: Library | None, **more: Any) -> Session:
    facts = {"device": gpu.name, "sms": gpu.sms, "l2_bytes": gpu.l2, "data": cuda.DATA}
    settings: dict[str, Any] = {"machine": None, "watch": Watch(None), "clock": gpu, "quick": True, "facts": facts, "gaps": []}  # fmt: skip
    return Session(gpu, library, **{**settings, **more})


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
def test_the_essential_probes_are_those_of_a_roofline(gpu: FakeGpu) -> None:
    targets = {each.target for each in cuda.run(session(gpu, None, essential=True))}
    assert {"hbm", "l2", "vector.fp32", "special.fp32", "launch"} <= targets
    assert not [target for target in targets if target.startswith(("latency", "pcie", "energy"))]


@pytest.mark.usefixtures("short")
def test_a_rate_above_the_ceiling_is_a_finding(gpu: FakeGpu) -> None:
    gpu.launch_time = 1e-7
    machine = load("h200-sxm")
    one = session(gpu, None, machine=machine)
    probe = Probe(
        "hbm read", "hbm", lambda loops: 1e-6 * loops, memories.stream_work("read", 64 * MIB), {"mix": "read"}
    )
    one.keep(interleave([probe], 2, gpu, min_seconds=1e-7, warm_seconds=0))
    told = cuda.with_findings(one, one.observations[0])
    assert told.settings["share_of_ceiling"] > 10
    assert told.best_bandwidth == pytest.approx(64 * MIB / 1e-6), "never clamped"
    assert "finding" in told.notes[-1]


def test_a_product_below_its_peak_says_why() -> None:
    machine = load("h200-sxm")
    during = {"sm_clock": {"median": 1.5e9}, "power": {"median": 698.0}, "clock_held_by": ["power cap"]}
    one = Session(None, None, machine, Watch(None), FakeGpu(), False, {}, [])
    seen = Observation(
        "gemm bf16 sustained", "tensor.bf16", (1e-3,), work(matrix={"p": (780e9,)}),
        {"burst": False}, {"during": during, "power_limit": 700.0},
    )  # fmt: skip
    (note,) = cuda.with_findings(one, seen).notes
    assert note == (
        "below 90 % of the ceiling: SM clock 1.5 GHz where the peak is rated at 1.83 GHz; power 698 W of 700 W allowed; "
        "the driver held the clock for: power cap"
    )


def test_a_sweep_point_above_the_ranking_is_a_finding() -> None:
    one = Session(None, None, None, Watch(None), FakeGpu(), False, {}, [])
    counted = work(matrix={"p": (800e9,)})
    times = {"gemm bf16 burst": 1e-3, "gemm bf16 1024^3": 2e-3, "gemm bf16 16384^3": 0.9e-3}
    one.observations = [
        Observation(name, "tensor.bf16", (time,), counted, {} if "burst" in name else {"sweep_over": "size"})
        for name, time in times.items()
    ]
    cuda.mark_sweep(one)
    assert [len(each.notes) for each in one.observations] == [0, 0, 1]
    assert "finding: 11 % above" in one.observations[2].notes[0]


def test_another_process_on_the_gpu_is_reported() -> None:
    one = Session(None, None, None, Watch(None), FakeGpu(), False, {"other_processes": [4]}, [])
    seen = Observation("x", "hbm", (1e-3,))
    (note,) = of_kind(cuda.with_findings(one, seen).notes, NOISE)
    assert "noisy: 1 other process on the GPU" in note


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

    with pytest.raises(Interrupted, match="stopped by Ctrl-C before"):
        cuda.run(session(gpu, None, on_progress=at_once))


@pytest.mark.needs_torch
@pytest.mark.needs_machine
def test_products_short_and_sustained(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "MAX_ERRORS", {"bf16": 1e-2, "int8": 0.0, "fp8": 2e-2})
    hold = power.hold
    monkeypatch.setattr(power, "hold", lambda call, clock, watch, shortest, longest: hold(call, clock, watch, 0.05, 0.1, 0.005))  # fmt: skip
    one = Session(None, library, None, Watch(None), REAL, True, {}, [], sms=2, scale=64)
    ranked = products.rank_products(library, 2, True, 64, one.gaps)
    assert set(ranked) >= {"bf16", "int8"}
    power.sustained(one, ranked)
    held = next(each for each in one.observations if each.target == "tensor.bf16")
    assert held.settings["burst"] is False
    assert len(held.samples) + len(held.settings["settling_samples"]) == held.settings["windows"]
    probe = products.burst(*ranked["bf16"])
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
    probes = [*streams.streams(Memory(gpu), quick=True), *arithmetic.arithmetic(gpu, quick=True)]
    powers = iter(range(500, 0, -7))

    def hold(call: Callable[[int], float], *_: Any) -> power.Held:
        each = call(4) / 4
        return power.Held([each] * 20, [each] * 10, True, (0.0, 1.0), float(next(powers)), "test", 1 / each)

    monkeypatch.setattr(power, "hold", hold)
    meter = conditions.Smi(lambda: "")
    one = session(gpu, None, watch=Watch(meter), quick=False)
    loads = power.held_loads(one, gpu, probes)
    assert {target for load in loads for target in load.rates} == {"hbm", "l2", "l1", "vector.fp64", "vector.fp32", "vector.fp16"}  # fmt: skip
    assert sum("half of the time" in load.name for load in loads) == 5
    power.add_energy(one, loads)
    fitted = one.observations[-1]
    assert fitted.target == "energy"
    assert len(fitted.settings["loads"]) == len(loads)
    assert json.dumps(to_document(fitted))
    power.add_energy(one, loads[:1])
    assert "too few" in one.gaps[-1]


def test_a_pause_is_as_long_as_the_work(gpu: FakeGpu) -> None:
    call = power.halved(gpu, [lambda: gpu.launch("nothing", 1, 1)])
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
    monkeypatch.setattr(devices, "package", lambda name: present.get(name))


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
    device, library, gaps = devices.open_device()
    assert device is None
    assert library is not None
    assert gaps == ["memory, FMA, special-function, launch and copy probes: cupy is not installed"]


def test_cupy_whose_compiler_fails_leaves_a_named_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, cupy=fake_cupy(lambda: 1), torch=fake_torch(True))

    def fail(cupy: Any) -> None:
        raise RuntimeError("libnvrtc.so: cannot open shared object file\n...")

    monkeypatch.setattr(devices, "CupyDevice", fail)
    _, _, gaps = devices.open_device()
    assert gaps == [
        "memory, FMA, special-function, launch and copy probes: libnvrtc.so: cannot open shared object file"
    ]


def test_the_catalog_is_found_without_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    from ridgeline.machines import files

    monkeypatch.setitem(sys.modules, "platformdirs", None)
    files.paths.cache_clear()
    machine, _ = files.by_driver_name("NVIDIA H200")
    assert machine is not None
    assert machine.name == "h200-sxm"
    assert files.by_driver_name("Fake GPU")[0] is None


def test_every_kernel_named_is_in_its_file() -> None:
    for source, names in devices.SOURCES.items():
        text = (devices.KERNELS / source).read_text()
        assert "#include" not in text, "NVRTC finds no headers on a machine without the toolkit"
        for name in names:
            assert re.search(rf"void {re.escape(name.partition('<')[0])}\(", text), name


def test_a_benchmark_without_a_gpu_says_what_is_missing(tmp_path: Path) -> None:
    """The script that made the H200's numbers runs from a plain checkout. A GPU is hidden: other tests may use it now."""
    script = Path(__file__).parents[2] / "benchmarks" / "cuda_ceilings.py"
    done = subprocess.run(
        [sys.executable, str(script), "--out", str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "GPU" in done.stderr
