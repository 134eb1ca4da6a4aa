"""The main job on a CUDA GPU: torch's default paths, predicted by the kernel families of the catalog's machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from ...core.errors import InputError
from ...core.machine import Machine
from ...core.observation import Observation
from ...machines import coefficients
from ...machines.calibrate import calibrate
from ...machines.detect import local as detect
from ...measure import protocol
from ...measure.cuda import suite
from .job import KernelRuns, Workload


def available() -> bool:
    """Whether there is an NVIDIA GPU and torch to run kernels on it; torch itself is not loaded."""
    if importlib.util.find_spec("torch") is None:
        return False
    return any(device.kind == "gpu" and device.vendor == "NVIDIA" for device in detect.devices())


class CudaBench:
    """The first GPU. Everything on it happens in processes of its own, so that this one stays without CUDA."""

    def __init__(self) -> None:
        if importlib.util.find_spec("torch") is None:
            raise InputError("`ridgeline run --on cuda` times torch kernels, and torch is not installed: install ridgeline[torch], or use --on cpu")  # fmt: skip
        self.clock: protocol.Clock = protocol.REAL
        self.place = "CUDA"

    def detect(self) -> Machine:
        machine = coefficients.with_defaults(detect.here("gpu"))
        if sms := machine.units.get("sm"):
            self.place = f"{sms} SMs"
        return machine

    def measure(self, machine: Machine, quick: bool, on_progress: protocol.Progress) -> list[Observation]:
        return suite.ceilings(quick, on_progress)

    def ceilings(self, detected: Machine, observations: Sequence[Observation]) -> Machine:
        return calibrate(detected, observations)

    def workload(self, machine: Machine) -> Workload:
        return Workload(suite.kernels())

    def calibrate(self, machine: Machine, workload: Workload, on_progress: protocol.Progress) -> tuple[Machine, str]:
        """Nothing is timed: the families were fitted to other sizes, on this GPU or on others."""
        fitted = "timed on this GPU model" if machine.calibrated else "borrowed from other GPUs"
        return machine, f"predictions by kernel families ({fitted}), sealed before the run"

    def run(self, workload: Workload, date: str, on_progress: protocol.Progress) -> KernelRuns:
        observed, refused = suite.timed([kernel for kernel in workload.kernels if isinstance(kernel, suite.GpuKernel)], date, on_progress)  # fmt: skip
        if not observed:
            raise InputError(f"no kernel could be timed: {next(iter(refused.values()), 'torch ran none')}")
        return KernelRuns(observed, refused=refused)
