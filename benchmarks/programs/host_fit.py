"""Fit the host costs of calls (`call_factor` in machines/defaults.toml) to recorded host times; errors of models left out.

    python benchmarks/programs/host_fit.py [--record FILE ...] [--on MACHINE]

A record has, per program, the time until the host had dispatched a step to an idle device, and what calls of PyTorch took around it
(`record.py`). The calls set the speed of the host at that minute, so that a fit of all programs is one of the programs and not of
the host. By default every record here that has them is taken. The host time of a step is also at most its wall time. Factors are held to their start by a prior of a factor of two.
The last table predicts each model with factors fitted to the other models: all its programs are left out together.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from compare import on_host, traced

import ridgeline as rl
from ridgeline.core.machine import Machine
from ridgeline.core.trace import Trace
from ridgeline.machines.defaults import defaults
from ridgeline.prediction.queue import Queue
from ridgeline.prediction.traced.dispatch import host_costs, module_costs

RECORDS = sorted(path for path in Path(__file__).parent.glob("h200*.json") if "sealed" not in path.name)
FIXED = (
    "compiled_kernel",
    "compiled_product",
    "compiled_convolution",
    "compiled_attention",
    "compiled_call",
    "compiled_checked",
    "compiled_fixed",
    "compiled_training",
    "compiled_parameter",
    "graph_break",  # of compiled programs
    "launch",
    "recurrent_launch",  # of few programs
)
PRIOR, SCATTER = 0.7, 0.1  # standard deviations of the logarithms of factors and of host times
STEPS, PROBE = 3, 0.02  # of Gauss-Newton, and of its numerical slopes


@dataclass(frozen=True)
class Program:
    name: str
    host: float  # recorded seconds
    trace: Trace
    queue: Queue
    machine: Machine  # with the calls of its host

    def error(self, factors: dict[str, float]) -> float:
        """Logarithm of the predicted over the recorded host time."""
        costs = host_costs(self.trace, self.machine, factors)[self.trace.op]
        cost = (costs + module_costs(self.trace, self.machine, factors)) * self.trace.times
        return math.log(float(replace(self.queue, cost=cost).schedule(steps=1).host[-1]) / self.host)


def read(paths: list[Path], machine: Machine) -> list[Program]:
    programs = []
    records = [record for path in paths for record in json.loads(path.read_text(encoding="utf-8"))["programs"]]
    for record in records:
        if record.get("mode", "eager") != "eager" or "call_us" not in record:
            continue
        trace = traced(record["case"], "eager")
        host = on_host(machine, record)
        seconds = min(record["host_us"], record["wall_us"]) / 1e6
        programs.append(Program(record["case"], seconds, trace, rl.predict(trace, host).queue, host))
        print(f"traced {record['case']}", flush=True)
    return programs


@dataclass(frozen=True)
class Fit:
    """Logarithms of factors near their best values, with how the errors of the programs follow them."""

    names: list[str]
    point: Any
    start: Any
    errors: Any  # per program
    slopes: Any  # per program and factor

    def step(self, kept: Any) -> Any:
        """To the best factors of some of the programs, where errors are linear in the logarithms."""
        rows = np.vstack([self.slopes[kept] / SCATTER, np.eye(len(self.names)) / PRIOR])
        aims = -np.concatenate([self.errors[kept] / SCATTER, (self.point - self.start) / PRIOR])
        return np.linalg.lstsq(rows, aims, rcond=None)[0]


def fitted(programs: list[Program], start: dict[str, float]) -> Fit:
    """Gauss-Newton steps from the factors in use."""
    names = [name for name in start if name not in FIXED]
    begin = point = np.log([start[name] for name in names])

    def errors(at: Any) -> Any:
        factors = {**start, **dict(zip(names, np.exp(at).tolist(), strict=True))}
        return np.array([program.error(factors) for program in programs])

    for last in (False,) * (STEPS - 1) + (True,):
        now = errors(point)
        shifts = PROBE * np.eye(len(names))
        slopes = np.stack([(errors(point + shift) - now) / PROBE for shift in shifts], axis=1)
        fit = Fit(names, point, begin, now, slopes)
        if not last:
            point = point + fit.step(np.arange(len(programs)))
    return fit


def left_out(fit: Fit, models: list[str]) -> list[float]:
    """Errors of each program with the factors that fit all programs of other models."""
    given = np.array(models)
    steps = {model: fit.step(np.flatnonzero(given != model)) for model in dict.fromkeys(models)}
    return [
        float(error + slope @ steps[model]) for error, slope, model in zip(fit.errors, fit.slopes, models, strict=True)
    ]


def shown(title: str, errors: dict[str, float]) -> None:
    for name, error in errors.items():
        print(f"{name:28s} {100 * math.expm1(error):+6.1f} %")
    sizes = [abs(math.expm1(error)) for error in errors.values()]
    print(f"{title}: host time {100 * statistics.median(sizes):.1f} % median error, {100 * max(sizes):.0f} % worst")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, nargs="+", default=RECORDS)
    parser.add_argument("--on", default="h200-sxm")
    given = parser.parse_args()
    programs = read(given.record, rl.machine(given.on))
    start = dict(defaults("call_factor"))
    names = [program.name for program in programs]
    shown("as in defaults.toml", dict(zip(names, [program.error(start) for program in programs], strict=True)))
    fit = fitted(programs, start)
    shown("fitted to all", dict(zip(names, fit.errors.tolist(), strict=True)))
    print({name: float(f"{math.exp(value):.3g}") for name, value in zip(fit.names, fit.point.tolist(), strict=True)})
    shown("models left out", dict(zip(names, left_out(fit, [name.split()[0] for name in names]), strict=True)))


if __name__ == "__main__":
    main()
