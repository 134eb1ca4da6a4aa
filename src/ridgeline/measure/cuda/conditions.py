"""Under which conditions a GPU ran: clocks, heat, power, driver and versions, read through NVML and never changed.

NVML answers through pynvml where that is installed, else through `nvidia-smi`. A `Watch` reads it again and again in
a thread while the probes run; `summary` says what held during the spans of time one probe took.
"""

from __future__ import annotations

import datetime
import importlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

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
    """Something that tells how the GPU is at this moment, and what it is."""

    via: str

    def facts(self) -> dict[str, Any]: ...

    def read(self) -> dict[str, Any]: ...


class Nvml:
    """NVML through pynvml. What the driver does not support or not permit is left out."""

    via = "NVML (pynvml)"

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml, self.handle = nvml, handle

    def _ask(self, name: str, *arguments: Any) -> Any:
        function = getattr(self.nvml, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except Exception:  # pynvml's errors share only this base where the library itself is missing
            return None

    def facts(self) -> dict[str, Any]:
        ecc = self._ask("nvmlDeviceGetEccMode", self.handle)
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit", self.handle)
        cuda = self._ask("nvmlSystemGetCudaDriverVersion_v2") or self._ask("nvmlSystemGetCudaDriverVersion")
        most = self._ask("nvmlDeviceGetMaxClockInfo", self.handle, 1)
        found = {
            "driver": _text(self._ask("nvmlSystemGetDriverVersion")),
            "cuda_driver": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
            "power_limit": limit / 1e3 if limit else None,
            "ecc": None if ecc is None else ("on" if ecc[0] else "off"),
            "most_sm_clock": most * MHZ if most else None,
            "other_processes": self.others(),
        }
        return {key: value for key, value in found.items() if value is not None}

    def others(self) -> list[int] | None:
        """Processes other than this one that hold the GPU; None where the driver does not say."""
        running = self._ask("nvmlDeviceGetComputeRunningProcesses", self.handle)
        return None if running is None else sorted({int(row.pid) for row in running} - {os.getpid()})

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, kind in (("sm_clock", 1), ("memory_clock", 2)):
            clock = self._ask("nvmlDeviceGetClockInfo", self.handle, kind)
            if clock is not None:
                found[key] = clock * MHZ
        heat = self._ask("nvmlDeviceGetTemperature", self.handle, 0)
        if heat is not None:
            found["temperature"] = float(heat)
        power = self._power()
        if power is not None:
            found["power"] = power
        energy = self._ask("nvmlDeviceGetTotalEnergyConsumption", self.handle)
        if energy is not None:
            found["energy"] = energy / 1e3
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self.handle)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self.handle)
        if bits is not None:
            found["reasons"] = [word for bit, word in REASONS.items() if bits & bit]
        return found

    def _power(self) -> float | None:
        values = self._ask("nvmlDeviceGetFieldValues", self.handle, [INSTANT_POWER])
        if values and getattr(values[0], "nvmlReturn", 1) == 0 and values[0].value.uiVal:
            return float(values[0].value.uiVal) / 1e3
        power = self._ask("nvmlDeviceGetPowerUsage", self.handle)
        return None if power is None else power / 1e3


SMI_FIELDS = (
    "clocks.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "enforced.power.limit",
    "ecc.mode.current",
    "driver_version",
)


class Smi:
    """The same from `nvidia-smi`, which is slower and knows less."""

    via = "nvidia-smi"

    def __init__(self, ask: Callable[[], str]) -> None:
        self.ask = ask

    def _row(self) -> dict[str, str]:
        try:
            told = self.ask()
        except (OSError, subprocess.SubprocessError):
            return {}
        return smi_row(told)

    def facts(self) -> dict[str, Any]:
        row = self._row()
        ecc = {"Enabled": "on", "Disabled": "off"}.get(row.get("ecc.mode.current", ""))
        found = {
            "driver": row.get("driver_version"),
            "power_limit": _number(row.get("enforced.power.limit")),
            "ecc": ecc,
        }
        return {key: value for key, value in found.items() if value is not None}

    def read(self) -> dict[str, Any]:
        row = self._row()
        keys = (
            ("sm_clock", "clocks.sm", MHZ),
            ("memory_clock", "clocks.mem", MHZ),
            ("temperature", "temperature.gpu", 1.0),
            ("power", "power.draw", 1.0),
        )
        numbers = ((key, _number(row.get(name)), scale) for key, name, scale in keys)
        return {key: value * scale for key, value, scale in numbers if value is not None}


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


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def reader(bus: str) -> tuple[Reader | None, str]:
    """A reader of the GPU on a PCI bus id, or None and why there is none."""
    why = "pynvml is not installed"
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        return Nvml(nvml, handle), ""
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
    if not smi.read():
        return None, f"{why}, and nvidia-smi does not answer"
    return smi, ""


@dataclass
class Watch:
    """Reads the GPU every `period` seconds in a thread while the probes run."""

    source: Reader | None
    clock: Clock = REAL
    period: float = 0.02
    seen: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
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
            self.look()
            self._stop.wait(self.period)

    def look(self) -> dict[str, Any]:
        """One reading now, kept with its time."""
        told = self.source.read() if self.source is not None else {}
        if told:
            self.seen.append((self.clock.now(), told))
        return told

    def during(self, spans: Iterable[tuple[float, float]]) -> list[tuple[float, dict[str, Any]]]:
        spans = list(spans)
        return [(at, told) for at, told in list(self.seen) if any(start <= at <= end for start, end in spans)]


def summary(readings: Sequence[tuple[float, Mapping[str, Any]]]) -> dict[str, Any]:
    """Least, middle and most of each quantity over some readings, and every reason the clock was held for."""
    found: dict[str, Any] = {"readings": len(readings)}
    for key in ("sm_clock", "memory_clock", "temperature", "power"):
        values = [told[key] for _, told in readings if key in told]
        if values:
            found[key] = {"least": min(values), "median": float(np.median(values)), "most": max(values)}
    reasons = {word for _, told in readings for word in told.get("reasons", ())}
    if reasons - {"idle"}:
        found["clock_held_by"] = sorted(reasons - {"idle"})
    return found


def mean_power(readings: Sequence[tuple[float, Mapping[str, Any]]]) -> tuple[float, str] | None:
    """Power over some readings and how it was found: by the energy counter where it moved, else as a mean of readings."""
    counted = [(at, told["energy"]) for at, told in readings if "energy" in told]
    # the counter moves in steps of some 20 to 100 ms: only changes are moments at which its value is exact
    steps = [row for before, row in pairwise(counted) if row[1] != before[1]]
    if len(steps) >= 3 and steps[-1][0] - steps[0][0] > 0.2:
        return (steps[-1][1] - steps[0][1]) / (steps[-1][0] - steps[0][0]), "energy counter"
    values = [told["power"] for _, told in readings if "power" in told]
    return (float(np.mean(values)), "mean of power readings") if values else None


def versions() -> dict[str, str]:
    """Versions of what the probes are made with, as far as it is loaded here."""
    import platform

    found = {"python": platform.python_version(), "numpy": np.__version__}
    from importlib.metadata import PackageNotFoundError, version

    for name in ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "nvidia-ml-py"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
