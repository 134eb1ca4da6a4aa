"""Under which conditions a GPU ran: clocks, heat, power, driver and versions, read through NVML and never changed.

NVML answers through pynvml where that is installed, else through `nvidia-smi`. A `Watch` reads it again and again in
a thread while the probes run; `summary` says what held during the spans of time one probe took.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ...core.statistics import median
from ..protocol import REAL, Clock

# Bits of NVML's "clocks event reasons", in the words its documentation uses.
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock",
}
INSTANT_POWER = 186  # NVML field: power of the moment, where nvmlDeviceGetPowerUsage averages over a second
MHZ = 1e6


class Reader(Protocol):
    """Reads the state of the GPU at this moment, and its fixed properties."""

    via: str

    def facts(self) -> dict[str, Any]: ...
    def read(self) -> dict[str, Any]: ...


class Nvml:
    """NVML through pynvml. What the driver does not support or not permit is left out."""

    via = "NVML (pynvml)"

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml, self.handle = nvml, handle

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.nvml, name)(*arguments)
        except Exception:  # a call this pynvml lacks; its own errors share only this base where the library is missing
            return None

    def facts(self) -> dict[str, Any]:
        driver = self._ask("nvmlSystemGetDriverVersion")
        ecc = self._ask("nvmlDeviceGetEccMode", self.handle)
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit", self.handle)
        cuda = self._ask("nvmlSystemGetCudaDriverVersion_v2") or self._ask("nvmlSystemGetCudaDriverVersion")
        max_clock = self._ask("nvmlDeviceGetMaxClockInfo", self.handle, 1)
        facts = {
            "driver": driver.decode() if isinstance(driver, bytes) else driver,
            "cuda_driver": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
            "power_limit": limit / 1e3 if limit else None,
            "ecc": None if ecc is None else ("on" if ecc[0] else "off"),
            "most_sm_clock": max_clock * MHZ if max_clock else None,
            "other_processes": self.others(),
        }
        return {key: value for key, value in facts.items() if value is not None}

    def others(self) -> list[int] | None:
        """Processes other than this one that hold the GPU; None where the driver does not say."""
        running = self._ask("nvmlDeviceGetComputeRunningProcesses", self.handle)
        return None if running is None else sorted({int(row.pid) for row in running} - {os.getpid()})

    def read(self) -> dict[str, Any]:
        clock, memory = (self._ask("nvmlDeviceGetClockInfo", self.handle, domain) for domain in (1, 2))
        heat = self._ask("nvmlDeviceGetTemperature", self.handle, 0)
        energy = self._ask("nvmlDeviceGetTotalEnergyConsumption", self.handle)
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self.handle)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self.handle)
        reading = {
            "sm_clock": None if clock is None else clock * MHZ,
            "memory_clock": None if memory is None else memory * MHZ,
            "temperature": None if heat is None else float(heat),
            "power": self._power(),
            "energy": None if energy is None else energy / 1e3,
            "reasons": None if bits is None else [word for bit, word in REASONS.items() if bits & bit],
        }
        return {key: value for key, value in reading.items() if value is not None}

    def _power(self) -> float | None:
        values = self._ask("nvmlDeviceGetFieldValues", self.handle, [INSTANT_POWER])
        if values and getattr(values[0], "nvmlReturn", 1) == 0 and values[0].value.uiVal:
            return float(values[0].value.uiVal) / 1e3
        power = self._ask("nvmlDeviceGetPowerUsage", self.handle)
        return None if power is None else power / 1e3


# fields of nvidia-smi that are read again and again: our name and the factor to our unit
SMI_READINGS = {"clocks.sm": ("sm_clock", MHZ), "clocks.mem": ("memory_clock", MHZ)}
SMI_READINGS |= {"temperature.gpu": ("temperature", 1.0), "power.draw": ("power", 1.0)}
SMI_FIELDS = (*SMI_READINGS, "enforced.power.limit", "ecc.mode.current", "driver_version")


class Smi:
    """The same from `nvidia-smi`, which is slower and knows less."""

    via = "nvidia-smi"

    def __init__(self, ask: Callable[[], str]) -> None:
        self.ask = ask

    def _row(self) -> dict[str, str]:
        try:
            return smi_row(self.ask())
        except (OSError, subprocess.SubprocessError):
            return {}

    def facts(self) -> dict[str, Any]:
        row = self._row()
        ecc = {"Enabled": "on", "Disabled": "off"}.get(row.get("ecc.mode.current", ""))
        limit = _number(row.get("enforced.power.limit"))
        facts = {"driver": row.get("driver_version"), "power_limit": limit, "ecc": ecc}
        return {key: value for key, value in facts.items() if value is not None}

    def read(self) -> dict[str, Any]:
        row = self._row()
        numbers = {name: _number(row.get(name)) for name in SMI_READINGS}
        scaled = ((*SMI_READINGS[name], value) for name, value in numbers.items())
        return {key: value * scale for key, scale, value in scaled if value is not None}


def smi_row(text: str) -> dict[str, str]:
    """The first line of `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`; what it does not know is left out."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(SMI_FIELDS):
        return {}
    return {name: value for name, value in zip(SMI_FIELDS, values, strict=True) if not value.startswith("[")}


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def reader(bus: str) -> tuple[Reader | None, str]:
    """A reader of the GPU on a PCI bus id, or None and why there is none."""
    why = "pynvml is not installed"
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        return Nvml(nvml, nvml.nvmlDeviceGetHandleByPciBusId(bus.encode())), ""
    except ImportError:
        pass
    except Exception as error:  # every NVML refusal is an NVMLError, a class that exists only when the import succeeds
        why = f"NVML refused: {error}"
    program = shutil.which("nvidia-smi")
    if program is None:
        return None, f"{why}, and nvidia-smi is not on the PATH"
    command = [program, f"--id={bus}", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"]

    def ask() -> str:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout

    smi = Smi(ask)
    return (smi, "") if smi.read() else (None, f"{why}, and nvidia-smi does not answer")


@dataclass
class Watch:
    """Reads the GPU every `period` seconds in a thread while the probes run."""

    source: Reader | None
    clock: Clock = REAL
    period: float = 0.02
    readings: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        if self.source is not None:
            self._thread = threading.Thread(target=self._run, name="ridgeline-watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.source is not None and (reading := self.source.read()):
                self.readings.append((self.clock.now(), reading))
            self._stop.wait(self.period)

    def during(self, spans: Iterable[tuple[float, float]]) -> list[tuple[float, dict[str, Any]]]:
        spans = list(spans)
        return [(at, row) for at, row in list(self.readings) if any(start <= at <= end for start, end in spans)]


def summary(readings: Sequence[tuple[float, Mapping[str, Any]]]) -> dict[str, Any]:
    """Smallest, median and largest value of each quantity, and every reason the clock was held for."""
    summed: dict[str, Any] = {"readings": len(readings)}
    for key in ("sm_clock", "memory_clock", "temperature", "power"):
        values = [row[key] for _, row in readings if key in row]
        if values:
            summed[key] = {"least": min(values), "median": median(values), "most": max(values)}
    reasons = {word for _, row in readings for word in row.get("reasons", ())} - {"idle"}
    if reasons:
        summed["clock_held_by"] = sorted(reasons)
    return summed


def mean_power(readings: Sequence[tuple[float, Mapping[str, Any]]]) -> tuple[float, str] | None:
    """Mean power and where it comes from: the energy counter where it moved, else the readings of power."""
    counted = [(at, row["energy"]) for at, row in readings if "energy" in row]
    # the counter moves in steps of some 20 to 100 ms: only changes are moments at which its value is exact
    steps = [row for before, row in pairwise(counted) if row[1] != before[1]]
    if len(steps) >= 3 and steps[-1][0] - steps[0][0] > 0.2:
        return (steps[-1][1] - steps[0][1]) / (steps[-1][0] - steps[0][0]), "energy counter"
    values = [row["power"] for _, row in readings if "power" in row]
    return (float(np.mean(values)), "mean of power readings") if values else None


def versions() -> dict[str, str]:
    """Versions of what the probes are made with, as far as it is installed."""
    installed = {"python": platform.python_version(), "numpy": np.__version__}
    for name in ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "nvidia-ml-py"):
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed
