"""Collectives against published nccl-tests and rccl-tests tables: errors above and below 1 MB, floors that were beaten.

    python benchmarks/collectives.py         the tables that nothing was fitted to, by machine, ranks and collective
    python benchmarks/collectives.py all     those that were fitted to as well
    python benchmarks/collectives.py fit     coefficients for machines/defaults.toml, fitted to the tables marked `fit`

`data/collectives.csv` has the out-of-place times as the sources print them, of every second or fourth size. `nic_gb_s` is
the rate of a rank's network card where it is another than in the machine's file, `process` whether each rank has a process
of its own or one process drives all GPUs of a node. Its launches follow one another, and where that takes longer than the
collective it is what the test reports: wall = max(device, launches x each), as everywhere in ridgeline.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path as File

import numpy as np
from numpy.typing import NDArray

from ridgeline.core.collectives import FABRIC, HOST, Path, expected
from ridgeline.core.figure import NETWORK
from ridgeline.core.machine import Machine
from ridgeline.core.network import groups
from ridgeline.machines.defaults import defaults
from ridgeline.machines.load import load
from ridgeline.prediction.host import launch_latency
from ridgeline.prediction.predict import Prediction, predict
from ridgeline.programs.ops import OPS

TABLES = File(__file__).parent / "data" / "collectives.csv"
MEASURING_ERROR = 0.01  # by which a published time may lie below the floor
SMALL = 1e6  # bytes below which a collective is mostly latency
LAUNCH = 4.1e-6  # seconds a process takes for each of its GPUs: the smallest times of the two such tables marked `fit`
FITTED = {"": ("start",), FABRIC: ("latency", "gap", "low", "simple", "piece"),
          NETWORK: ("latency", "gap", "low", "simple", "piece", "efficiency")}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Published times of one collective between so many ranks."""

    machine_name: str
    ranks: int
    op: str
    nic: str
    process: str
    use: str
    source: str
    sizes: NDArray[np.float64]
    times: NDArray[np.float64]

    @cached_property
    def machine(self) -> Machine:
        machine = _load(self.machine_name)
        if not self.nic:
            return machine
        links = [
            replace(link, per_direction=replace(link.per_direction, stated=float(self.nic) * 1e9))
            if link.topology == NETWORK
            else link
            for link in machine.links
        ]
        return replace(machine, links=tuple(links))

    @cached_property
    def prediction(self) -> Prediction:
        return predict(OPS[self.op](bytes=self.sizes, ranks=self.ranks), self.machine)

    @property
    def host(self) -> float:
        """Seconds of the launches of a process that drives the GPUs of a node."""
        return LAUNCH * min(self.ranks, 8) if self.process == "node" else 0.0

    @property
    def device_ratios(self) -> NDArray[np.float64]:
        return np.asarray(self.prediction.time) / self.times

    @property
    def ratios(self) -> NDArray[np.float64]:
        return np.maximum(self.prediction.time, self.host) / self.times

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether a published time lies in the 80 % interval."""
        low, high = (np.maximum(end, self.host) for end in (self.prediction.low, self.prediction.high))
        return np.asarray((low <= self.times) & (self.times <= high))

    @property
    def beaten(self) -> NDArray[np.bool_]:
        return np.asarray(self.times < np.asarray(self.prediction.floor) * (1 - MEASURING_ERROR))


@cache
def _load(name: str) -> Machine:
    return load(name)


def tables() -> list[Table]:
    rows: dict[tuple[str, ...], list[tuple[float, float]]] = defaultdict(list)
    with TABLES.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = tuple(
                row[name] for name in ("machine", "ranks", "collective", "nic_gb_s", "process", "use", "source")
            )
            rows[key].append((float(row["bytes"]), float(row["time_us"]) / 1e6))
    return [
        Table(machine, int(ranks), op, nic, process, use, source, *(np.array(column) for column in zip(*sizes, strict=True)))
        for (machine, ranks, op, nic, process, use, source), sizes in rows.items()
    ]  # fmt: skip


def median_error(ratios: NDArray[np.float64]) -> str:
    return f"{100 * np.median(np.abs(ratios - 1)):5.1f} %" if len(ratios) else "      -"


def judge(chosen: Sequence[Table]) -> int:
    """Prints the errors; 1 where a limit is not held."""
    for table in chosen:
        large = table.sizes >= SMALL
        print(
            f"{table.machine_name:14} {table.ranks:3} {table.op:14} above 1 MB {median_error(table.ratios[large])}"
            f"  below {median_error(table.ratios[~large])}  {table.use:5} {table.source[:60]}"
        )
    ratios, sizes = (np.concatenate([getattr(table, name) for table in chosen]) for name in ("ratios", "sizes"))
    inside, beaten = (np.concatenate([getattr(table, name) for table in chosen]) for name in ("inside", "beaten"))
    own = np.concatenate([np.full(len(table.sizes), table.process == "rank") for table in chosen])
    large = sizes >= SMALL
    print(f"\n{len(sizes)} published times in {len(chosen)} tables")
    held = True
    for name, which, limit in (("above 1 MB", large, 0.2), ("below 1 MB", ~large, 0.4)):
        error = np.median(np.abs(ratios[which] - 1))
        held &= bool(error <= limit)
        print(
            f"{name}: {which.sum()} times, median error {100 * error:.1f} % (limit {100 * limit:.0f} %), "
            f"P90 {100 * np.quantile(np.abs(ratios[which] - 1), 0.9):.0f} %, {100 * inside[which].mean():.0f} % in the 80 % interval"
        )
    device = np.concatenate([table.device_ratios for table in chosen])
    for name, which in (("with a process for each rank", ~large & own), ("against device times alone", ~large)):
        print(f"below 1 MB {name}: {which.sum()} times, median error {median_error(device[which]).strip()}")
    for ranks, op in sorted({(table.ranks, table.op) for table in chosen}):
        same = np.concatenate([np.full(len(table.sizes), (table.ranks, table.op) == (ranks, op)) for table in chosen])
        above, below = median_error(ratios[same & large]), median_error(ratios[same & ~large])
        print(
            f"{ranks:3} GPUs, {op:14} above {above} of {(same & large).sum():3}, below {below} of {(same & ~large).sum():3}"
        )
    print(f"floors beaten: {beaten.sum()}")
    return 0 if held and not beaten.any() else 1


def times(table: Table, coefficients: Mapping[str, Mapping[str, float]]) -> NDArray[np.float64]:
    """Expected times with other coefficients than those of the defaults."""
    paths = {kind: Path(**coefficients[kind]) for kind in (FABRIC, HOST, NETWORK)}
    start = coefficients[""]["start"] + launch_latency(table.machine)
    rates = {link.name: link.per_direction.value() or 0.0 for link in table.machine.links}
    (group,) = groups(table.machine, table.ranks)
    made = expected(table.op, table.sizes, group, rates, paths, start).time
    return np.maximum(made, np.asarray(table.prediction.floor))


def fit(chosen: Iterable[Table]) -> int:
    """Least absolute logarithms, so that no table that went wrong pulls the others along."""
    from scipy.optimize import minimize

    chosen = list(chosen)
    now = {kind: dict(defaults(f"collective_{kind}" if kind else "collective")) for kind in ("", FABRIC, HOST, NETWORK)}
    places = [(kind, name) for kind, names in FITTED.items() for name in names]

    def put(values: Sequence[float]) -> dict[str, dict[str, float]]:
        made = {kind: dict(row) for kind, row in now.items()}
        for (kind, name), value in zip(places, np.exp(values), strict=True):
            made[kind][name] = min(float(value), 1.0)
        return made

    def loss(values: Sequence[float]) -> float:
        coefficients = put(values)
        lost = 0.0
        for table in chosen:
            counted = (table.process == "rank") | (table.sizes >= SMALL)  # the rest is the host's time
            ratios = np.log(times(table, coefficients) / table.times)[counted]
            lost += float(np.abs(ratios).sum())
        return lost

    best = np.log([now[kind][name] for kind, name in places])
    for _ in range(4):
        found = minimize(loss, best, method="Nelder-Mead", options={"maxiter": 4000, "maxfev": 4000, "xatol": 1e-3})
        best = found.x
    print(f"mean absolute logarithm {loss(best) / sum(len(table.sizes) for table in chosen):.3f}")
    for kind, name in places:
        print(f"collective{f'_{kind}' if kind else ''}.{name} = {put(best)[kind][name]:.3g}")
    return 0


def main(arguments: Sequence[str]) -> int:
    made = tables()
    if arguments == ["fit"]:
        return fit(table for table in made if table.use == "fit")
    return judge(made if arguments == ["all"] else [table for table in made if table.use == "judge"])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
