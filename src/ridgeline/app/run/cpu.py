"""The main job on a CPU: the C suite on all cores and NumPy's product, calibrated on other sizes of the same kernels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.machine import Machine
from ...core.observation import Observation
from ...core.units import counted
from ...core.version import __version__
from ...machines.calibrate import measured_machine
from ...machines.detect import local as detect
from ...measure import protocol, shared
from ...measure.cpu import build, probes
from ...measure.cpu.pool import cores
from ...measure.cpu.suite import CALIBRATION_SHARES, SEALED_SHARE, Kernel, Suite
from ...prediction.fit import fit_small
from .job import KernelRuns, Workload

ROUNDS = 7  # samples of every sealed kernel
CALIBRATION_ROUNDS = 4
QUICK_BUDGET, CALIBRATION_BUDGET, RUN_BUDGET = 20.0, 9.0, 7.0  # seconds
MAX_RETRY_ROUNDS = 2  # times as many rounds for kernels whose samples scatter
BLAS_SPIN_SECONDS = 0.3  # until the idle threads of a BLAS have stopped spinning
CALIBRATED = "predictions calibrated on other sizes of the same kernels, sealed before the run"


class CpuBench:
    """This CPU, all its cores."""

    def __init__(self) -> None:
        self.clock: protocol.Clock = protocol.REAL
        self.place = counted(len(cores()), "core")

    def detect(self) -> Machine:
        return detect.here("cpu")

    def measure(self, machine: Machine, quick: bool, on_progress: protocol.Progress) -> list[Observation]:
        budget = QUICK_BUDGET if quick else None
        return probes.measure(machine, quick=quick, clock=self.clock, on_progress=on_progress, budget=budget)

    def ceilings(self, detected: Machine, observations: Sequence[Observation]) -> Machine:
        return measured_machine(observations, detected)

    def workload(self, machine: Machine) -> Workload:
        """The suite at the size that is sealed and at the others; without a compiler NumPy's kernels."""
        time.sleep(BLAS_SPIN_SECONDS)
        left_out, library = "", None
        try:
            library = build.build().library
        except build.BuildError as error:
            left_out = f"NumPy kernels in place of the C suite: {error}"
        suite = Suite(library, machine)
        # one size of every kernel after the other: where the time ends early, each kernel has some
        others = [make(share) for share in CALIBRATION_SHARES for make in suite.makers]
        ceilings = [] if library is None else self._sampled([suite.exponential()], 5)
        return Workload([make(SEALED_SHARE) for make in suite.makers], ceilings, left_out, others)

    def calibrate(self, machine: Machine, workload: Workload, on_progress: protocol.Progress) -> tuple[Machine, str]:
        """Time the kernels at sizes on both sides of the sealed one, which is never timed before it is sealed."""
        kernels = workload.calibration or ()
        timed = self._timed(kernels, CALIBRATION_ROUNDS, CALIBRATION_BUDGET, on_progress, checked=False)
        if timed.stopped:
            raise KeyboardInterrupt
        fitted = fit_small([(series.probe.work, shared.fair_samples(series)) for series in timed.series], machine)
        if not fitted:
            return machine, ""
        return replace(machine, fitted={**machine.fitted, **fitted}), CALIBRATED

    def run(self, workload: Workload, date: str, on_progress: protocol.Progress) -> KernelRuns:
        ran = self._timed(workload.kernels, ROUNDS, RUN_BUDGET, on_progress)
        if not ran.series:
            raise KeyboardInterrupt
        return KernelRuns({row.probe.name: observation(row, {"date": date}) for row in ran.series}, ran.stopped)

    def _sampled(self, probes: Sequence[protocol.Probe], rounds: int) -> list[Observation]:
        ran = protocol.interleave(probes, rounds, self.clock)
        if ran.stopped:
            raise KeyboardInterrupt
        observed = [observation(series, {}) for series in ran.series]
        # the estimate from CPU time is a ceiling like any other, and its spread says how well it is known
        return [replace(item, conditions={}) for item in observed]

    def _timed(
        self, kernels: Sequence[Any], rounds: int, budget: float, on_progress: protocol.Progress, checked: bool = True
    ) -> protocol.Run:
        """The kernels in turns; those of a library last and apart, because its idle threads spin and take cores."""
        both = protocol.Run([])
        for library in (False, True):
            chosen: list[Kernel] = [kernel for kernel in kernels if kernel.library is library]
            if not chosen or both.stopped:
                continue
            share = budget * len(chosen) / len(kernels)
            ran = protocol.interleave(
                [kernel.probe(checked) for kernel in chosen], rounds, self.clock, on_progress,
                warm_seconds=0.0, max_rounds=MAX_RETRY_ROUNDS * rounds, budget=share,
            )  # fmt: skip
            both.series += ran.series
            both.why = ran.why
        return both


def observation(series: protocol.Series, conditions: Mapping[str, Any]) -> Observation:
    """The observation of a series with the samples that are fair to it."""
    return replace(protocol.observation(series, conditions, __version__), samples=tuple(shared.fair_samples(series)))
