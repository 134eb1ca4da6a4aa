"""Charts of what was measured: bandwidth against working set, GEMM rate and collectives against size, kernels predicted and run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.machine import KINDS, Machine
from ...core.notes import DRIFT, NOISE, not_of_kind
from ...core.observation import Observation
from ...core.units import show
from ...measure.cpu.levels import Plateau
from ...measure.cpu.levels import levels as levels_of
from ...measure.cpu.pool import counted
from ..chart import LOG, Axis, Bar, Chart, Line, Mark, Point

MIXES = ("read", "write", "write_nt", "copy", "scale", "add", "triad")
ALONE = "read, 1 core"  # the line of one core beside those of all
FEW = 8  # points of a line that are too few for it to stand without markers


def _span(values: Iterable[float], margin: float = 1.3) -> tuple[float, float]:
    found = list(values)
    return min(found) / margin, max(found) * margin


def working_sets(machine: Machine, observations: Iterable[Observation]) -> Chart:
    """Bandwidth against working set, one line per access mix, with the capacities reported and the levels found.

    On a CPU the mixes run on all cores and the working set is that of each core, so that private caches end at one
    place however many cores take part; the read sweep of one core is a line of its own, and the levels come from it.
    """
    rows = list(observations)
    levels = {level.name for level in machine.levels}
    sweeps = [
        item
        for item in rows
        if item.settings.get("mix") in MIXES
        and "bytes" in item.settings
        and item.target.removeprefix("sweep.") in levels
    ]
    cores = max((int(item.settings.get("threads", 0)) for item in sweeps), default=0)
    lines: dict[str, dict[float, float]] = {}
    for item in sweeps:
        mix, mine = str(item.settings["mix"]), int(item.settings.get("threads", 0))
        if mine == cores:
            # one sweep runs through all levels of a CPU; a GPU's levels have probes of their own
            name = mix + (f", {item.target}" if machine.kind == "gpu" else "")
        elif mine == 1 and mix == "read":
            name = ALONE
        else:
            continue
        size, line = float(item.settings["bytes"]) / max(mine, 1), lines.setdefault(name, {})
        line[size] = max(line.get(size, 0.0), item.best_bandwidth)
    lines = {name: line for name, line in lines.items() if len(line) > 1}
    if not lines:
        raise InputError("nothing was measured over several working sets, so there is no sweep to draw")
    order = sorted(lines, key=lambda name: (name == ALONE, name.partition(",")[2], MIXES.index(name.partition(",")[0])))
    every = [(size, rate) for line in lines.values() for size, rate in line.items()]
    across = _span((size for size, _ in every), 1.5)
    found = levels_of(rows, machine) if machine.kind == "cpu" else []
    notes = ["nominal bytes: a write that first reads its line moves more than is counted here"]
    if found:
        notes += [
            "dots with a thin line: levels that the read sweep of one core shows, with bandwidth and end",
            "dashed uprights: capacities that the system reports",
        ]
    return Chart(
        "working-sets",
        f"Bandwidth against working set on {machine.name}",
        Axis("working set of each core" if cores else "working set", "B", LOG, across),
        Axis("bandwidth", "B/s", LOG, _span(rate for _, rate in every)),
        f"{machine.title}{f', {counted(cores)} together' if cores > 1 else ', 1 core' if cores else ''}, best of all samples",
        (
            *(
                Line(tuple(sorted(lines[name].items())), "target" if name == ALONE else "series", name, name)
                for name in order
            ),
            *(Line(((row.first, row.bandwidth), (_end(row), row.bandwidth)), "guide", _named(row)) for row in found),
        ),
        (
            *(
                Point(size, rate, "", name, "target" if name == ALONE else "observed", name)
                for name in order
                if name == ALONE or len(lines[name]) <= FEW
                for size, rate in sorted(lines[name].items())
            ),
            *(Point(_end(row), row.bandwidth, _named(row), "", "ridge", f"{_named(row)} found") for row in found),
        ),
        marks=tuple(mark for mark in _capacities(machine, cores, ALONE in lines) if across[0] < mark.value < across[1]),
        notes=tuple(notes),
    )


def _end(plateau: Plateau) -> float:
    return plateau.capacity or plateau.last


def _named(plateau: Plateau) -> str:
    return f"{plateau.level} {show(plateau.bandwidth, 'B/s', 3)}".strip()


def _capacities(machine: Machine, cores: int, alone: bool) -> list[Mark]:
    """Where each level ends by report: for a core by itself, and for each of several that share what is not private."""
    found: dict[tuple[str, float], str] = {}
    for together in dict.fromkeys([1, cores] if alone else [cores]):
        inner = 0.0
        for level in machine.levels[:-1]:
            one, total = level.capacity.value(), level.total
            if one is None or total is None:
                continue
            size = min(one, total / together) if together > 1 else one if together else total
            if size > inner:
                share = f" for each of {together} cores" if together > 1 and size < one else ""
                found.setdefault((level.name, size), f"{level.name}: {show(size, 'B', binary=True)} reported{share}")
                inner = size
    return [Mark("x", size, text, "ridge") for (_, size), text in found.items()]


def gemm_sizes(machine: Machine, observations: Iterable[Observation]) -> Chart:
    """Rate of library matrix products against their size, one line per number format, library and number of cores."""
    lines: dict[str, dict[float, float]] = {}
    for item in observations:
        shape = item.settings.get("shape")
        cube = isinstance(shape, dict) and len(set(shape.values())) == 1
        size = shape["n"] if isinstance(shape, dict) and cube else item.settings.get("n", item.settings.get("size"))
        swept = item.settings.get("sweep_over") == "size"
        if size is not None and (swept or "library" in item.settings):
            name = f"{item.settings.get('dtype', '')} {item.settings.get('library', '')}".strip()
            if "threads" in item.settings:
                name += f", {counted(int(item.settings['threads']))}"
            mine = lines.setdefault(name, {})
            mine[float(size)] = max(mine.get(float(size), 0.0), item.best_rate)
    if not lines:
        raise InputError("no library products were measured, so there is no size sweep to draw")
    every = [(size, rate) for mine in lines.values() for size, rate in mine.items()]
    return Chart(
        "gemm-sizes",
        f"Matrix products on {machine.name}",
        Axis("N of an N x N x N product", "", LOG, _span((size for size, _ in every), 1.4)),
        Axis("performance", "FLOP/s", LOG, _span(rate for _, rate in every)),
        f"{machine.title}, best of all samples",
        tuple(Line(tuple(sorted(mine.items())), "series", name, name) for name, mine in sorted(lines.items())),
        tuple(
            Point(size, rate, show(rate, "flop/s", 3), name, "observed", f"{name} {size:.0f}")
            for name, mine in sorted(lines.items())
            for size, rate in mine.items()
        ),
    )


def collectives(observations: Iterable[Observation]) -> Chart:
    """Bus bandwidth against the size of the buffer: what was measured, and the line alpha + sent / beta through it."""
    rows = list(observations)
    points = [item for item in rows if "bus_bandwidth" in item.settings]
    if not points:
        raise InputError("no collectives were measured, so there is nothing to draw")
    fits = {str(item.settings["op"]): item.settings for item in rows if "alpha" in item.settings}
    lines, names = [], {}
    for op in dict.fromkeys(str(item.settings["op"]) for item in points):
        mine = [item for item in points if item.settings["op"] == op]
        told = fits.get(op)
        if told is None:
            names[op] = op
            continue
        names[op] = f"{op}: {show(told['alpha'], 's', 3)}, {show(told['beta'], 'B/s', 3)}"
        share = mine[0].amount / mine[0].settings["bytes"]  # of the buffer that a rank sends
        sizes = np.geomspace(*_span((float(item.settings["bytes"]) for item in mine), 1.0), 40)
        curve = share * sizes / (told["alpha"] + share * sizes / told["beta"])
        lines.append(Line(tuple(zip(sizes.tolist(), curve.tolist(), strict=True)), "series", names[op], names[op]))
    first = points[0].settings
    hosts = {row["host"] for row in points[0].conditions.get("hosts", [])}
    where = f", {len(hosts)} hosts" if len(hosts) > 1 else ""
    return Chart(
        "collectives",
        f"Collectives between {first['ranks']} ranks with {first['backend']}",
        Axis("size of the buffer", "B", LOG, _span((float(item.settings["bytes"]) for item in points), 1.6)),
        Axis("bus bandwidth", "B/s", LOG, _span([*(item.rate for item in points), *(y for line in lines for _, y in line.points)])),
        f"points: median of the slowest rank; lines: alpha + bytes a rank sends / beta, both given below{where}",
        tuple(lines),
        tuple(
            Point(float(item.settings["bytes"]), item.rate, "", names[str(item.settings["op"])], "observed", item.name)
            for item in points
        ),
        notes=tuple(dict.fromkeys(note for item in points for note in not_of_kind(item.notes, NOISE, DRIFT))),
    )  # fmt: skip


def ceiling_rows(machine: Machine) -> list[dict[str, Any]]:
    """Every figure that was measured beside its stated or derived limit, and the share of it that was reached."""
    found = []
    figures = {**machine.peaks, **{level.name: level.bandwidth for level in machine.levels}}
    for level in machine.levels:
        figures |= {f"{level.name}, {mix}": figure for mix, figure in level.mixes.items()}
    for link in machine.links:
        figures[link.name] = link.per_direction
    for name, figure in figures.items():
        if figure.measured is None:
            continue
        limit = figure.stated if figure.stated is not None else figure.derived
        base = name.partition(",")[0]
        if limit is None and base != name:
            outer = next(level for level in machine.levels if level.name == base).bandwidth
            limit = outer.stated if outer.stated is not None else outer.derived
        found.append(
            {
                "ceiling": name,
                "measured": figure.measured,
                "sustained": figure.sustained,
                "spread": figure.spread,
                "limit": limit,
                "share": figure.measured / limit if limit else None,
                "how": figure.measurement,
                "unit": figure.unit,
            }
        )
    return found


def landing(machine: Machine, items: Sequence[dict[str, Any]]) -> Chart:
    """Kernels on the roofline: where they were predicted and where they landed, joined by a line."""
    peaks = {name: figure for name, figure in machine.peaks.items() if any(getattr(figure, kind) for kind in KINDS)}
    used = list(dict.fromkeys(str(item["engine"]) for item in items if item.get("engine") in peaks))
    shown = [item for item in items if item["flops"] > 0]
    if not shown or not used:
        raise InputError("none of the kernels does flops, so none stands on the roofline")
    bandwidth = machine.bandwidth().value
    at = [item["flops"] / item["bytes"] for item in shown]
    rates = [item["flops"] / item[key] for item in shown for key in ("predicted", "measured")]
    top = {name: machine.peak(name).value for name in used}
    left, right = min(at) / 3, max([*at, *(peak / bandwidth for peak in top.values())]) * 4
    low = min([*rates, left * bandwidth]) / 2
    lines = [
        Line(
            ((left, left * bandwidth), (max(top.values()) / bandwidth, max(top.values()))),
            "bandwidth",
            f"{machine.main.name} {show(bandwidth, 'B/s')}",
        )
    ]
    lines += [
        Line(((peak / bandwidth, peak), (right, peak)), "peak", f"{name} {show(peak, 'flop/s')}")
        for name, peak in top.items()
    ]
    points = []
    for item, x in zip(shown, at, strict=True):
        there, here = item["flops"] / item["predicted"], item["flops"] / item["measured"]
        lines.append(Line(((x, there), (x, here)), "guide", "", "measured"))
        points.append(
            Point(x, there, "", "predicted", "target", f"{item['name']}, predicted", {"time": item["predicted"]})
        )
        points.append(
            Point(
                x, here, item["name"], "measured", "observed", f"{item['name']}, measured", {"time": item["measured"]}
            )
        )
    return Chart(
        "landing",
        f"Predicted and measured on {machine.name}",
        Axis("arithmetic intensity", "FLOP/byte", LOG, (left, right)),
        Axis("performance", "FLOP/s", LOG, (low, max(top.values()) * 2)),
        f"{machine.title}, measured ceilings",
        tuple(lines),
        tuple(points),
        notes=(
            "a thin line joins where a kernel was predicted with where it landed; the roof is the best access mix of the memory",
        ),
    )


def shares(machine: Machine) -> Chart:
    """Measured ceilings as bars beside the limits they have."""
    rows = [row for row in ceiling_rows(machine) if row["limit"] and "," not in row["ceiling"]]
    if not rows:
        raise InputError("no measured ceiling has a stated or derived limit to stand beside")
    bars = []
    for row in rows:
        bars.append(Bar(row["ceiling"], 1.0, None, show(row["limit"], row["unit"]), "limit", "value"))
        bars.append(
            Bar(
                "",
                row["share"],
                None,
                f"{show(row['measured'], row['unit'])}  {row['share']:.0%}",
                "measured",
                "measured",
            )
        )
    top = max(1.0, *(row["share"] for row in rows)) * 1.05
    return Chart(
        "shares",
        f"Measured against stated or derived on {machine.name}",
        Axis("share of the limit", "", "linear", (0.0, top)),
        Axis("", "", "linear", (0.0, 1.0), False),
        machine.title,
        bars=tuple(bars),
        look="bars",
    )
