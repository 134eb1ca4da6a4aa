"""Held loads, the energy fitted from their power, and the readings of NVML and nvidia-smi, all made up."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ridgeline.measure.cuda import conditions, power
from ridgeline.measure.cuda.conditions import Watch
from ridgeline.measure.cuda.power import Load


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


def test_a_load_is_held_until_it_is_steady() -> None:
    load = Falling()
    held = power.hold(load, load, Watch(None), min_seconds=1.0, max_seconds=20.0)
    assert held.steady
    assert 1.0 <= load.time < 4.0
    assert held.steady_windows[-1] == pytest.approx(0.012, rel=0.02)
    assert held.windows[0] < held.steady_windows[0], "the burst at the beginning is not among the steady windows"
    assert held.power is None
    assert held.rate == pytest.approx(1 / 0.012, rel=0.02)


def test_a_load_that_never_settles_says_so() -> None:
    load = Falling()
    times = iter(np.tile([0.01, 0.02], 5000))

    def restless(loops: int) -> float:
        load.time += (took := float(next(times)) * loops)
        return took

    held = power.hold(restless, load, Watch(None), min_seconds=0.5, max_seconds=2.0)
    assert not held.steady
    assert load.time >= 2.0


def test_energy_and_static_power_come_out_of_made_up_loads() -> None:
    """P = 100 W + 20 pJ/B x B/s + 1 pJ/flop x flop/s, exactly."""
    rates = [{"hbm": 4e12}, {"hbm": 2e12}, {"vector.fp32": 5e13}, {"vector.fp32": 2.5e13}, {"hbm": 1e12}]
    cost = {"hbm": 20e-12, "vector.fp32": 1e-12}
    loads = [Load("", 100 + sum(cost[name] * rate for name, rate in row.items()), row) for row in rates]
    fitted = power.fit(loads)
    assert fitted is not None
    assert fitted.static == pytest.approx(100)
    assert fitted.energy == pytest.approx(cost)
    assert fitted.residual == pytest.approx(0, abs=1e-9)
    assert power.fit(loads[:1]) is None


def test_energy_that_cannot_be_told_apart_is_named() -> None:
    loads = [Load("", 200, {"a": 1e12}), Load("", 300, {"a": 2e12}), Load("", 90, {"b": 1e12}), Load("", 80, {"b": 2e12})]  # fmt: skip
    fitted = power.fit(loads)
    assert fitted is not None
    assert fitted.unresolved == ["b"]
    assert set(fitted.energy) == {"a"}


# -- conditions ------------------------------------------------------------------------------------------------


def test_nvidia_smi_is_read() -> None:
    row = "1980, 3201, 34, 121.34, 700.00, Enabled, 580.159.04\n"
    smi = conditions.Smi(lambda: row)
    assert smi.read() == {"sm_clock": 1.98e9, "memory_clock": 3.201e9, "temperature": 34.0, "power": 121.34}
    assert smi.facts() == {"driver": "580.159.04", "power_limit": 700.0, "ecc": "on"}


def test_what_nvidia_smi_does_not_know_is_absent() -> None:
    smi = conditions.Smi(lambda: "1980, 3201, 34, [N/A], [Not Supported], [N/A], 580.1\n")
    assert "power" not in smi.read()
    assert smi.facts() == {"driver": "580.1"}
    assert conditions.smi_row("No devices were found\n") == {}

    def broken() -> str:
        raise subprocess.CalledProcessError(9, "nvidia-smi")

    assert conditions.Smi(broken).read() == {}


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
    reader, why = conditions.reader("0000:00:05.0")
    assert reader is not None
    assert why == ""
    facts = reader.facts()
    assert facts == {"driver": "580.159.04", "cuda_driver": "13.0", "ecc": "on", "other_processes": [4]}
    told = reader.read()
    assert told["power"] == 698
    assert told["reasons"] == ["power cap"]


def test_no_nvml_and_no_nvidia_smi_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(conditions.shutil, "which", lambda name: None)
    assert conditions.reader("0000:00:05.0") == (
        None,
        "pynvml is not installed, and nvidia-smi is not on the PATH",
    )

    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(nvmlInit=refuse))
    reader, why = conditions.reader("0000:00:05.0")
    assert reader is None
    assert "Insufficient Permissions" in why


def test_summary_speaks_of_the_spans_of_one_probe() -> None:
    watch = Watch(None)
    watch.readings = [
        (float(at), {"sm_clock": clock, "power": 700.0, "reasons": ["power cap"]})
        for at, clock in enumerate([1980e6, 1600e6, 1500e6, 1980e6])
    ]
    told = conditions.summary(watch.during([(0.5, 2.5)]))
    assert told["readings"] == 2
    assert told["sm_clock"] == {"least": 1500e6, "median": 1550e6, "most": 1600e6}
    assert told["clock_held_by"] == ["power cap"]


def test_power_by_the_energy_counter_or_by_readings() -> None:
    counted = [(0.05 * step, {"energy": 70.0 * (step // 2), "power": 1.0}) for step in range(40)]
    power, how = conditions.mean_power(counted) or (0, "")
    assert power == pytest.approx(700)
    assert how == "energy counter"
    assert conditions.mean_power([(0.0, {"power": 90.0}), (1.0, {"power": 110.0})]) == (100, "mean of power readings")  # fmt: skip
    assert conditions.mean_power([]) is None


def test_watch_reads_in_a_thread() -> None:
    class Counting:
        via, count = "test", 0
        enough = threading.Event()

        def facts(self) -> dict[str, Any]:
            return {}

        def read(self) -> dict[str, Any]:
            self.count += 1
            if self.count > 3:  # the third reading has been kept
                self.enough.set()
            return {"power": float(self.count)}

    source = Counting()
    with Watch(source, period=0.001) as watch:
        assert source.enough.wait(60)
    assert [reading["power"] for _, reading in watch.readings[:3]] == [1.0, 2.0, 3.0]
