"""Charts of measurements: bandwidth, GEMM rate and collectives against size, ceilings, predicted vs measured kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.machine import Machine
from ...core.notes import DRIFT, NOISE, not_of_kind
from ...core.observation import Observation
from ...core.units import show
from ...measure.cpu.bench import counted
from ...measure.cpu.levels import Plateau
from ...measure.cpu.levels import levels as measured_levels
from ...prediction.ceilings import known_peak
from ...prediction.score import Evaluation
from ..chart import LOG, Axis, Bar, Chart, Line, Mark, Point
from ..tables.measured import ceiling_rows
from .plane import Roofs, roof_chart
from .wording import level_title, name_of

MIXES = ("read", "write", "write_nt", "copy", "scale", "add", "triad")
ONE_CORE = "read, 1 core"  # next to the lines of all cores
MAX_STEP, MAX_CHANGE = (
    2.1,
    1.25,
)  # sizes farther apart than the first are not joined where the rate changes by the second
FIT_POINTS = 40
# Families that a picture can tell apart by colour: products as one, what streams as one.
FAMILY_GROUPS = {"gemv": "rows", "reduce": "stream", "transpose": "stream", "gather": "stream"}
BANDS = {"+25 %": 1.25, "-20 %": 0.8}
Sizes = dict[str, dict[float, float]]  # by line: size -> best rate


def _range(values: Iterable[float], margin: float = 1.3) -> tuple[float, float]:
    listed = list(values)
    return min(listed) / margin, max(listed) * margin


def _best(lines: Sizes, line: str, size: float, rate: float) -> None:
    points = lines.setdefault(line, {})
    points[size] = max(points.get(size, 0.0), rate)


def working_sets(machine: Machine, observations: Iterable[Observation]) -> Chart:
    """Bandwidth against working set, one line per access mix, with the capacities reported and the levels measured.

    On a CPU the mixes run on all cores and the working set is that of each core, so that private caches end at one
    place however many cores take part; the read sweep of one core is a line of its own, and the levels come from it.
    A line is broken where two sizes are far apart and their rates differ: nothing was measured on the cliff between them.
    """
    listed = list(observations)
    lines, cores = _mixes(machine, listed)
    if not lines:
        raise InputError("nothing was measured over several working sets, so there is no sweep to draw")
    order = sorted(lines, key=lambda name: (name == ONE_CORE, name.partition(",")[2], MIXES.index(name.partition(",")[0])))  # fmt: skip
    points = [point for line in lines.values() for point in line.items()]
    across = _range((size for size, _ in points), 1.5)
    levels = measured_levels(listed, machine) if machine.kind == "cpu" else []
    plateaus = [
        Point(_end(level), level.bandwidth, _title(level), "", "ridge", f"{_title(level)} measured") for level in levels
    ]
    notes = ["nominal bytes: write-allocate traffic is not counted"]
    notes += ["dashed verticals: cache capacities that the system reports"] if machine.kind == "cpu" else []
    notes += ["dots with a name: bandwidth and end of each level in the read sweep of one core"] if levels else []
    together = f", {counted(cores)} together" if cores > 1 else ", 1 core" if cores else ""
    marks = _capacities(machine, cores, ONE_CORE in lines)
    return Chart(
        "working-sets", f"Bandwidth vs working set on {'this machine' if machine.name == 'here' else machine.name}",
        Axis("working set of each core" if cores else "working set", "B", LOG, across),
        Axis("bandwidth", "B/s", LOG, _range(rate for _, rate in points)), f"{machine.title or machine.name}{together}, best of all samples",
        tuple(_sweep_lines(lines, order)), (*_sweep_points(lines, order), *plateaus),
        marks=tuple(mark for mark in marks if across[0] < mark.value < across[1]), notes=tuple(notes),
    )  # fmt: skip


def _mixes(machine: Machine, observations: Iterable[Observation]) -> tuple[Sizes, int]:
    """Best bandwidth by access mix and working set of each core, and the number of cores; lines of one point are left out."""
    levels = {level.name for level in machine.levels}
    sweeps = [item for item in observations if item.settings.get("mix") in MIXES and "bytes" in item.settings]
    sweeps = [item for item in sweeps if item.target.removeprefix("sweep.") in levels]
    cores = max((int(item.settings.get("threads", 0)) for item in sweeps), default=0)
    lines: Sizes = {}
    for item in sweeps:
        mix, threads = str(item.settings["mix"]), int(item.settings.get("threads", 0))
        if threads == cores:
            # one sweep runs through all levels of a CPU; a GPU's levels have probes of their own
            name = mix + (f", {item.target}" if machine.kind == "gpu" else "")
        elif threads == 1 and mix == "read":
            name = ONE_CORE
        else:
            continue
        _best(lines, name, float(item.settings["bytes"]) / max(threads, 1), item.best_bandwidth)
    return {name: line for name, line in lines.items() if len(line) > 1}, cores


def _sweep_lines(lines: Sizes, order: Sequence[str]) -> list[Line]:
    """The lines, each in pieces where it would cross a cliff without points; the last piece carries the name."""
    drawn = []
    for name in order:
        pieces: list[list[tuple[float, float]]] = [[]]
        for size, rate in sorted(lines[name].items()):
            if pieces[-1] and _cliff(pieces[-1][-1], (size, rate)):
                pieces.append([])
            pieces[-1].append((size, rate))
        role = "target" if name == ONE_CORE else "series"
        drawn += [Line(tuple(piece), role, name if piece is pieces[-1] else "", name) for piece in pieces]
    return drawn


def _cliff(before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether nothing was measured between two sizes over which the rate changes much."""
    return after[0] > MAX_STEP * before[0] and max(before[1] / after[1], after[1] / before[1]) > MAX_CHANGE


def _sweep_points(lines: Sizes, order: Sequence[str]) -> list[Point]:
    """Every measured size, as a small marker."""
    return [
        Point(size, rate, "", name, "sample", f"{name}, {show(size, 'B', 3, binary=True)}")
        for name in order
        for size, rate in sorted(lines[name].items())
    ]


def _end(plateau: Plateau) -> float:
    return plateau.capacity or plateau.last


def _title(plateau: Plateau) -> str:
    return f"{level_title(plateau.level)} {show(plateau.bandwidth, 'B/s', 3)}".strip()


def _capacities(machine: Machine, cores: int, one_core: bool) -> list[Mark]:
    """Where each level ends by report: for a core by itself, and for each of several that share what is not private."""
    labels: dict[tuple[str, float], str] = {}
    for sharing in dict.fromkeys([1, cores] if one_core else [cores]):
        inner = 0.0
        for level in machine.levels[:-1]:
            each, total = level.capacity.value(), level.total
            if each is None or total is None:
                continue
            size = min(each, total / sharing) if sharing > 1 else each if sharing else total
            if size > inner:
                share = f" / {sharing} cores" if sharing > 1 and size < each else ""
                labels.setdefault(
                    (level.name, size), f"{level_title(level.name)} {show(size, 'B', 3, binary=True)}{share}"
                )
                inner = size
    return [Mark("x", size, text, "ridge") for (_, size), text in labels.items()]


def gemm_sizes(machine: Machine, observations: Iterable[Observation]) -> Chart:
    """Rate of library matrix products against their size, one line per number format, library and number of cores."""
    lines: Sizes = {}
    for item in observations:
        settings = item.settings
        size = _side(item)
        if size is None or not (settings.get("sweep_over") == "size" or "library" in settings):
            continue
        name = f"{settings.get('dtype', '')} {settings.get('library', '')}".strip()
        if "threads" in settings:
            name += f", {counted(int(settings['threads']))}"
        _best(lines, name, float(size), item.best_rate)
    if not lines:
        raise InputError("no library GEMM was measured, so there is no size sweep to draw")
    points = [(name, size, rate) for name in sorted(lines) for size, rate in lines[name].items()]
    return Chart(
        "gemm-sizes", f"GEMM rate vs size on {machine.name}",
        Axis("N of an N x N x N GEMM", "", LOG, _range((size for _, size, _ in points), 1.4)),
        Axis("performance", "FLOP/s", LOG, _range(rate for _, _, rate in points)), f"{machine.title}, best of all samples",
        tuple(Line(tuple(sorted(lines[name].items())), "series", name, name) for name in sorted(lines)),
        tuple(Point(size, rate, show(rate, "flop/s", 3), name, "observed", f"{name} {size:.0f}") for name, size, rate in points),
    )  # fmt: skip


def _side(item: Observation) -> float | None:
    """The side of a cubic product, None for others."""
    shape = item.settings.get("shape")
    if isinstance(shape, dict) and len(set(shape.values())) == 1:
        return float(shape["n"])
    side = item.settings.get("n", item.settings.get("size"))
    return None if side is None else float(side)


def collectives(observations: Iterable[Observation]) -> Chart:
    """Bus bandwidth against the size of the buffer: what was measured, and the line alpha + sent / beta through it."""
    listed = list(observations)
    points = [item for item in listed if "bus_bandwidth" in item.settings]
    if not points:
        raise InputError("no collectives were measured, so there is nothing to draw")
    fits = {str(item.settings["op"]): item for item in listed if "alpha" in item.settings}
    lines, names = [], {}
    for op in dict.fromkeys(str(item.settings["op"]) for item in points):
        names[op] = op
        if op in fits:
            alpha, beta = fits[op].settings["alpha"], fits[op].settings["beta"]
            names[op] = f"{op}: {show(alpha, 's', 3)}, {show(beta, 'B/s', 3)}"
            lines.append(_fit_line(names[op], alpha, beta, [item for item in points if item.settings["op"] == op]))
    first = points[0].settings
    hosts = {row["host"] for row in points[0].conditions.get("hosts", [])}
    where = f", {len(hosts)} hosts" if len(hosts) > 1 else ""
    up = _range([*(item.rate for item in points), *(y for line in lines for _, y in line.points)])
    return Chart(
        "collectives", f"Collectives between {first['ranks']} ranks with {first['backend']}",
        Axis("size of the buffer", "B", LOG, _range((float(item.settings["bytes"]) for item in points), 1.6)),
        Axis("bus bandwidth", "B/s", LOG, up),
        f"points: median of the slowest rank; lines: alpha + bytes a rank sends / beta, both given below{where}", tuple(lines),
        tuple(Point(float(item.settings["bytes"]), item.rate, "", names[str(item.settings["op"])], "observed", item.name) for item in points),
        notes=tuple(dict.fromkeys(note for item in points for note in not_of_kind(item.notes, NOISE, DRIFT))),
    )  # fmt: skip


def _fit_line(name: str, alpha: float, beta: float, points: Sequence[Observation]) -> Line:
    share = points[0].amount / points[0].settings["bytes"]  # of the buffer that a rank sends
    sizes = np.geomspace(*_range((float(item.settings["bytes"]) for item in points), 1.0), FIT_POINTS)
    curve = share * sizes / (alpha + share * sizes / beta)
    return Line(tuple(zip(sizes.tolist(), curve.tolist(), strict=True)), "series", name, name)


def shares(machine: Machine) -> Chart:
    """Measured ceilings and their stated or derived limits as bars."""
    rows = [row for row in ceiling_rows(machine) if row["limit"] and "," not in row["ceiling"]]
    if not rows:
        raise InputError("no measured ceiling has a stated or derived limit to compare with")
    bars = []
    for row in rows:
        text = f"{show(row['measured'], row['unit'], 3)}  {row['share'] * 100:.0f} %"
        bars.append(Bar(row["ceiling"], 1.0, None, show(row["limit"], row["unit"], 3), "stated", "value"))
        bars.append(Bar("", row["share"], None, text, "measured", "measured"))
    top = max(1.0, *(row["share"] for row in rows)) * 1.05
    return Chart(
        "shares", f"Measured vs stated or derived ceilings of {name_of(machine)}", Axis("share of the limit", "", "linear", (0.0, top)),
        Axis("", "", "linear", (0.0, 1.0), False), machine.title, bars=tuple(bars), look="bars",
    )  # fmt: skip


def landing(machine: Machine, items: Sequence[dict[str, Any]]) -> Chart:
    """Kernels on the roofline: predicted and measured rate, joined by a line."""
    engines = dict.fromkeys(str(item["engine"]) for item in items if known_peak(machine, str(item.get("engine"))))
    kernels = [item for item in items if item["flops"] > 0]
    if not kernels or not engines:
        raise InputError("none of the kernels does flops, so none has a place on the roofline")
    roofs = Roofs(machine, sorted(engines, key=lambda name: -machine.peak(name).value), [machine.main.name])
    lines: list[Line] = []
    points: list[Point] = []
    for item in kernels:
        x, name = item["flops"] / item["bytes"], item["name"]
        predicted, measured = item["flops"] / item["predicted"], item["flops"] / item["measured"]
        lines.append(Line(((x, predicted), (x, measured)), "guide", "", "measured"))
        for key, rate, label, role in (
            ("predicted", predicted, "", "target"),
            ("measured", measured, name, "observed"),
        ):
            points.append(Point(x, rate, label, key, role, f"{name}, {key}", {"time": item[key]}, key=name))
    ranges = roofs.ranges([(point.x, point.y) for point in points])
    title = f"Predicted vs measured on {'this machine' if machine.name == 'here' else machine.name}"
    note = "a thin line joins the predicted and the measured rate of a kernel"
    return roof_chart("landing", title, [roofs], ranges, lines, points, notes=[note])


def score_chart(evaluation: Evaluation) -> Chart:
    """Predicted vs measured time by kernel family, with the diagonal and the lines at +25 % and -20 %."""
    points = []
    for family in evaluation.families:
        kind = family.family.partition(" ")[0]
        pairs = zip(family.measured, family.predicted["ridgeline"], strict=True)
        points += [Point(float(x), float(y), group=FAMILY_GROUPS.get(kind, kind), role="value") for x, y in pairs]
    times = [time for point in points for time in (point.x, point.y)]
    low, high = min(times) / 1.5, max(times) * 1.5
    lines = [Line(((low, low), (high, high)), "guide", "predicted = measured")]
    lines += [Line(((low, low * by), (high, high * by)), "target", label) for label, by in BANDS.items()]
    errors = evaluation.pooled.errors()
    note = f"{len(points)} cases: median error {errors.median * 100:.1f} %, P90 {errors.p90 * 100:.1f} %, signed median {errors.signed * 100:+.1f} %"
    return Chart(
        "evaluation", f"Predicted vs measured time on {evaluation.machine}", Axis("measured", "s", LOG, (low, high)),
        Axis("predicted", "s", LOG, (low, high)), lines=tuple(lines), points=tuple(points), notes=(note,),
    )  # fmt: skip
