"""Fit the host costs of compiled inference (`compiled_*` of `call_factor` in machines/defaults.toml) to recorded host times.

    python benchmarks/programs/host_fit_compiled.py [--on MACHINE]

Takes every compiled inference step in the records here that has the calls of its host. Costs are multiples of the `block` of calls that was
timed around the step, and none is negative; relative errors are least squares. Each model is then predicted with costs fitted to the others.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
from compare import predicted
from scipy.optimize import nnls

import ridgeline as rl
from ridgeline.machines.defaults import defaults
from ridgeline.prediction.traced.dispatch import call_kind, checked_share

HERE = Path(__file__).parent
FACTORS = ("kernel", "product", "convolution", "attention", "call")


def counted(case: str, machine: rl.Machine) -> list[float] | None:
    """How many kernels of each kind a step launches, and one call, or its share of few parameters; None of a training step."""
    program = predicted(case, "compiled", machine)
    plan = program.plan
    if any(unit.op.site.phase == "backward" for unit in plan.units):
        return None
    counts: Counter[str] = Counter()
    for place, times in zip(plan.unit, plan.times, strict=True):
        kind = call_kind(plan.units[int(place)].op.site.call.name)
        counts[kind if kind in FACTORS else "kernel"] += float(times)
    return [*(counts[name] for name in FACTORS[:-1]), checked_share(program.trace, defaults("call_factor"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", default="h200-sxm")
    machine = rl.machine(parser.parse_args().on)
    cases, rows, hosts = [], [], []
    for path in sorted(HERE.glob("h200*.json")):
        for record in json.loads(path.read_text(encoding="utf-8"))["programs"]:
            if record["mode"] != "compiled" or "call_us" not in record:
                continue
            if counts := counted(record["case"], machine):
                cases.append(record["case"])
                rows.append(counts)
                hosts.append(min(record["host_us"], 1.05 * record["wall_us"]) / record["call_us"]["block"])
    shares = np.array(rows) / np.array(hosts)[:, None]
    models = np.array([case.split()[0] for case in cases])

    def factors(kept: np.ndarray) -> np.ndarray:
        return np.asarray(nnls(shares[kept], np.ones(kept.sum()))[0])

    left_out = np.array([share @ factors(models != model) - 1 for share, model in zip(shares, models, strict=True)])
    best = factors(models != "")
    used = np.array([defaults("call_factor")[f"compiled_{name}"] for name in FACTORS])
    for case, now, fit, out in zip(cases, shares @ used - 1, shares @ best - 1, left_out, strict=True):
        print(
            f"{case:28s} as in defaults.toml {100 * now:+4.0f} %, fitted {100 * fit:+4.0f} %, left out {100 * out:+4.0f} %"
        )
    print({name: float(f"{value:.3g}") for name, value in zip(FACTORS, best, strict=True)})
    sizes = np.abs(left_out)
    print(
        f"{len(cases)} steps, models left out: {100 * np.median(sizes):.0f} % median, {100 * np.quantile(sizes, 0.8):.0f} % P80"
    )


if __name__ == "__main__":
    main()
