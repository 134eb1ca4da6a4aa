"""The charts by name: from machines, works and predictions to neutral Chart values. Nothing is drawn here.

Every builder takes a Machine first and works on any of them: what a machine does not state is left out and said in
the notes, and only when nothing is left does it raise. `CHARTS` lists them for the command line and the page.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import machines as catalog
from .. import ops
from ..compare import default_dtype
from ..dtypes import TABLE
from ..dtypes import dtype as dtype_row
from ..errors import InputError, MissingFigure, unknown
from ..machine import ANY, MAIN, Machine, positive
from ..prediction import Prediction, plain, predict
from ..roofline import batch_intensity, critical_batch, saturation
from ..units import show
from ..work import Work
from .chart import LOG, Arrow, Axis, Bar, Chart, Line, Mark, Panel, Picture, Point, Region
from .layout import amount, shorten

MOST_POINTS, MOST_NAMED = 5000, 60
INTENSITY, PERFORMANCE = "arithmetic intensity", "performance"
PER_BYTE = "FLOP/byte"

# -- words ------------------------------------------------------------------------------------------------


def title_of(machine: Machine) -> str:
    return machine.title or machine.name


def engine_title(engine: str) -> str:
    """`tensor.bf16` as people say it."""
    owner, _, name = engine.partition(".")
    return f"{name} {owner}" if name else engine


def level_title(level: str) -> str:
    return level.upper() if len(level) <= 5 else level


def is_integer(engine: str) -> bool:
    name = engine.partition(".")[2]
    return name in TABLE and TABLE[name].integer


def rate_unit(engines: Iterable[str]) -> str:
    """Integer arithmetic is counted in operations, anything with a floating-point format in it in flops."""
    names = list(engines)
    return "OP/s" if names and all(is_integer(name) for name in names) else "FLOP/s"


def rate(value: float, engine: str = "") -> str:
    return show(value, "OP/s" if is_integer(engine) else "FLOP/s", 4)


def known_peak(machine: Machine, engine: str, ceilings: str | None) -> float | None:
    figure = machine.peaks.get(engine)
    return None if figure is None else figure.value(ceilings)


def known_levels(machine: Machine, ceilings: str | None = None) -> list[str]:
    """Levels with a bandwidth, outermost first."""
    return [level.name for level in reversed(machine.levels) if level.bandwidth.value(ceilings) is not None]


def kinds_used(machine: Machine, engines: Iterable[str], levels: Iterable[str], ceilings: str | None) -> str:
    """Which kind of ceilings the picture shows, as every output must say."""
    used = [machine.peak(name, ceilings).kind for name in engines] + [
        machine.bandwidth(name, ceilings).kind for name in levels
    ]
    return " and ".join(sorted(set(used))) + " ceilings"


# -- cases: predictions taken apart -----------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One piece of work on one machine: the numbers a point is made of."""

    name: str
    flops: float
    bytes: float
    time: float
    floor: float
    bound: str
    limiter: str
    engine: str
    level: str
    group: str = ""

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def attainable(self) -> float:
        return self.flops / self.floor

    @property
    def rate(self) -> float:
        return self.flops / self.time

    def details(self) -> dict[str, Any]:
        return {
            "flops": self.flops, "bytes": self.bytes, "time_us": self.time * 1e6, "floor_us": self.floor * 1e6,
            "bound": self.bound, "limiter": self.limiter,
        }  # fmt: skip


def _size(value: float) -> str:
    if value >= 1e6 and value % 1e5 == 0:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4g}"


SHORT = {"batch": "b", "heads": "h", "seq_q": "s", "seq_kv": "kv", "head_dim": "d", "tokens": "t", "experts": "e"}


def name_of(work: Work, index: int = 0) -> str:
    """An op and its sizes in a few characters: `gemm 4096x14336x4096`, `axpy 1e8`, `softmax 16384x4096`."""
    sizes = []
    for key, value in work.shape.items():
        if isinstance(value, str):
            sizes.append((key, value))
            continue
        flat = np.asarray(value, dtype=np.float64).ravel()
        sizes.append((key, _size(float(flat[index if flat.size > 1 else 0]))))
    given = dict(sizes)
    main = [given.pop(key) for key in ("m", "n", "k", "rows", "cols") if key in given]
    if "in_features" in given and "out_features" in given:
        main.append(f"{given.pop('in_features')}→{given.pop('out_features')}")
    if "c_in" in given and "h" in given:
        main = [f"{given.pop('c_in')}→{given.pop('c_out')} {given.pop('h')}x{given.pop('w')}"]
        given.pop("kernel", None), given.pop("stride", None), given.pop("groups", None), given.pop("dilation", None)
    joined = main[0] + "³" if len(main) == 3 and len(set(main)) == 1 else "x".join(main)
    rest = [
        f"{SHORT.get(key, key + '=')}{text}"
        for key, text in given.items()
        if key not in ("profile", "passes", "score_passes")
    ]
    return " ".join([work.name or "work", *([joined] if joined else []), *rest[:5]])


def cases(
    predictions: Prediction | Iterable[Prediction],
    groups: Mapping[str, str] | None = None,
    names: Sequence[str] | None = None,
) -> list[Case]:
    """Every step and every array element of predictions as one case each."""
    given = [predictions] if isinstance(predictions, Prediction) else list(predictions)
    found: list[Case] = []
    for prediction in given:
        for step, item in zip(prediction.steps, prediction.bounds, strict=True):
            alone = replace(prediction, steps=(replace(step, count=1.0),), bounds=(item,))
            arrays = [item.flops, item.bytes, alone.time, item.floor, item.bound, item.limiter]
            flat = [np.ravel(each) for each in np.broadcast_arrays(*arrays)]
            memory = [name for name, term in item.terms.items() if term.side == "memory"]
            for index in range(flat[0].size):
                own = step.name and step.name != item.work.name
                name = step.name if own and flat[0].size == 1 else name_of(item.work, index)
                group = (groups or {}).get(item.work.name, "")
                flops, moved, time, floor = (float(each[index]) for each in flat[:4])
                level = memory[-1] if memory else ""
                found.append(
                    Case(
                        name,
                        flops,
                        moved,
                        time,
                        floor,
                        str(flat[4][index]),
                        str(flat[5][index]),
                        str(plain(item.engine, index) or ""),
                        level,
                        group,
                    )
                )
    if names is not None:
        found = [replace(case, name=name) for case, name in zip(found, names, strict=True)]
    return found


def _predictions(machine: Machine, works: Iterable[Work], ceilings: str | None) -> tuple[list[Prediction], list[str]]:
    """Predictions of those works the machine can do, and a sentence for each it cannot."""
    done, notes = [], []
    for work in works:
        try:
            done.append(predict(work, machine, ceilings=ceilings))
        except MissingFigure as missing:
            notes.append(f"{name_of(work)} left out: {missing}")
    return done, notes


def _has_place(machine: Machine, case: Case) -> bool:
    over_link = any(link.name == case.limiter for link in machine.links)
    return (
        case.flops > 0
        and case.bytes > 0
        and not over_link
        and any(level.name == case.level for level in machine.levels)
    )


def _unplaced(machine: Machine, found: Sequence[Case]) -> tuple[list[dict[str, Any]], list[str]]:
    """Cases without a place on these axes, told in bytes per second instead: no flops, no bytes, or bytes over a link."""
    rows, notes = [], []
    for case in found:
        if _has_place(machine, case):
            continue
        if case.bytes <= 0:
            rows.append({"label": case.name, **case.details()})
            notes.append(f"{case.name} moves no bytes, so it has no intensity and is not drawn")
            continue
        reached = case.bytes / case.time if case.time > 0 else 0.0
        link = next(
            (each for each in machine.links if each.name == (case.limiter if case.flops > 0 else case.level)), None
        )
        if case.flops > 0 and link is not None:
            # its bytes at the main memory say little about a link, so only the time is told
            rows.append({"label": case.name, **case.details()})
            notes.append(
                f"{case.name} is bound by the link {link.name}, which has no roof here: expected {show(case.time, 's', 3)}"
            )
            continue
        full = (
            link.per_direction.value() if link is not None else machine.level(case.level).bandwidth.value()
        ) or math.nan
        rows.append({"label": case.name, "bandwidth": reached, "roof": full, **case.details()})
        notes.append(
            f"{case.name} does no flops, so it has no place on a log axis: {show(reached, 'B/s')} of {show(full, 'B/s')} ({case.level})"
        )
    return rows, notes


# -- parts of a roofline ----------------------------------------------------------------------------------


def _power_span(values: Iterable[float], base: float, margin: float) -> tuple[float, float]:
    """A range around positive values that begins and ends at powers of `base`."""
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = math.log(min(usable) / margin, base), math.log(max(usable) * margin, base)
    return base ** math.floor(low + 1e-9), base ** math.ceil(high - 1e-9)


def _roofs(
    machine: Machine,
    engines: Sequence[str],
    levels: Sequence[str],
    span: tuple[float, float],
    ceilings: str | None,
    group: str = "",
    who: str = "",
) -> tuple[list[Line], list[Point]]:
    """Sloped lines of the levels up to the highest roof, flat lines of the engines from the fastest level on, corner dots."""
    peaks = {name: machine.peak(name, ceilings).value for name in engines}
    speeds = {name: machine.bandwidth(name, ceilings).value for name in levels}
    top, fastest = max(peaks.values()), max(speeds.values())
    lines, dots = [], []
    for name, speed in speeds.items():
        end = min(top / speed, span[1])
        label = f"{who}{level_title(name)} {show(speed, 'B/s', 4)}"
        details = {"bandwidth": speed, "kind": machine.bandwidth(name, ceilings).kind, "level": name}
        lines.append(Line(((span[0], span[0] * speed), (end, end * speed)), "bandwidth", label, group, details))
    merged: dict[float, list[str]] = {}
    for name, value in peaks.items():
        merged.setdefault(value, []).append(name)
    for value, names in merged.items():
        shown = " = ".join(engine_title(name) for name in names)
        details = {"peak": value, "kind": machine.peak(names[0], ceilings).kind, "engine": " ".join(names)}
        lines.append(
            Line(
                ((value / fastest, value), (span[1], value)),
                "peak",
                f"{who}{shown} {rate(value, names[0])}",
                group,
                details,
            )
        )
        outer = speeds[levels[0]]
        dots.append(Point(value / outer, value, "", group, "ridge", f"ridge of {shown}", {"level": levels[0]}))
    return lines, dots


def _ridge_marks(dots: Sequence[Point], group: str = "") -> list[Mark]:
    many = len(dots) > 1
    return [
        Mark("x", dot.x, f"{dot.name if many else 'ridge'}: {amount(dot.x, PER_BYTE)}", "ridge", group) for dot in dots
    ]


def _regions(ridges: Sequence[float], span: tuple[float, float]) -> tuple[Region, ...]:
    """Left of the first ridge everything is memory-bound, right of the last compute-bound; between them it depends on the engine."""
    return (
        Region("memory-bound", (span[0], min(ridges)), None, "memory"), Region("compute-bound", (max(ridges), span[1]), None, "compute"),
    )  # fmt: skip


def _dots(found: Sequence[Case], by_bound: bool) -> tuple[list[Point], list[Line]]:
    """Expected point, roof marker and the thin line between them for each case."""
    points, guides = [], []
    for case in found:
        group = (
            case.group or (f"{case.bound}-bound" if case.bound in ("memory", "compute", "overhead") else case.bound)
            if by_bound
            else case.group
        )
        role = "overhead" if case.bound == "overhead" else "expected"
        points.append(Point(case.intensity, case.rate, shorten(case.name), group, role, case.name, case.details()))
        if case.attainable > case.rate * 1.02:
            points.append(Point(case.intensity, case.attainable, "", group, "floor", case.name, {}))
            guides.append(
                Line(((case.intensity, case.rate), (case.intensity, case.attainable)), "guide", "", group, {})
            )
    return points, guides


def _spans(
    machine: Machine, engines: Sequence[str], levels: Sequence[str], found: Sequence[Case], ceilings: str | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ranges of both axes: every ridge with room to its sides, and every point."""
    peaks = [machine.peak(name, ceilings).value for name in engines]
    speeds = [machine.bandwidth(name, ceilings).value for name in levels]
    ridges = [peak / speed for peak in peaks for speed in speeds]
    least, most = min(ridges) / 16, max(ridges) * 8
    across = _power_span(
        [least, most, *(case.intensity for case in found), *(case.intensity * 1.5 for case in found)], 2.0, 1.25
    )
    low = min([across[0] * min(speeds) * 2, *(case.rate for case in found)])
    return across, (
        10 ** (math.floor(math.log10(low / 1.6) * 4) / 4),
        10 ** (math.ceil(math.log10(max(peaks) * 1.5) * 4) / 4),
    )


def _engine(machine: Machine, dtype: str, ceilings: str | None, asked: str = "matrix") -> str:
    name = machine.engine(asked, dtype)
    machine.peak(name, ceilings)  # says what is missing when it is
    return name


def _plane(
    machine: Machine, engines: Sequence[str], levels: Sequence[str], found: Sequence[Case], ceilings: str | None, kind: str, title: str,
    notes: Sequence[str] = (), by_bound: bool = True, spans: tuple[tuple[float, float], tuple[float, float]] | None = None,
) -> Chart:  # fmt: skip
    """A roofline chart of some engines and levels with cases on it."""
    placed = [case for case in found if _has_place(machine, case)]
    if len(placed) > MOST_POINTS:
        raise InputError(f"{len(placed):,} points are more than a chart can show; pick {MOST_POINTS:,} or fewer")
    across, up = spans or _spans(machine, engines, levels, placed, ceilings)
    lines, dots = _roofs(machine, engines, levels, across, ceilings)
    points, guides = _dots(placed, by_bound)
    rows, more = _unplaced(machine, found)
    told = [*notes, *more]
    if len(placed) > MOST_NAMED:
        points, guides = [replace(point, label="") for point in points if point.role != "floor"], []
        told.append(f"{len(placed)} points, too many to name here; the table behind the chart names them")
    if len(dots) > 1 and kind != "precisions":
        told.append("regions: left of every ridge and right of every ridge; between them it depends on the engine")
    if len(levels) > 1:
        told.append(f"ridges and regions are those of {level_title(levels[0])}")
    if any(point.role == "overhead" for point in points):
        told.append(
            "overhead (squares in a drawing): shorter than a kernel launch, so the launch sets the time, not a roof"
        )
    if any(point.role == "floor" for point in points):
        told.append("a point stands at its expected rate, the small mark above it on its roof")
    return Chart(
        kind, title, Axis(INTENSITY, PER_BYTE, LOG, across), Axis(PERFORMANCE, rate_unit(engines), LOG, up),
        f"{title_of(machine)}, {kinds_used(machine, engines, levels, ceilings)}", (*lines, *guides), (*dots, *points),
        regions=_regions([dot.x for dot in dots], across), marks=tuple(_ridge_marks(dots)), notes=tuple(told), unplaced=tuple(rows),
    )  # fmt: skip


def _used(
    machine: Machine, found: Sequence[Case], dtype: str | None, ceilings: str | None
) -> tuple[list[str], list[str]]:
    """Engines and levels that cases are judged against, the highest roof and the outermost level first."""
    engines = [case.engine for case in found if case.engine and not case.engine.startswith("special")]
    if dtype is not None or not engines:
        engines.append(_engine(machine, dtype or default_dtype(machine), ceilings))
    engines = sorted(set(engines), key=lambda name: -machine.peak(name, ceilings).value)
    have = known_levels(machine, ceilings)
    used = [level for level in have if any(case.level == level for case in found if _has_place(machine, case))]
    return engines, used or [machine.bandwidth(MAIN, ceilings).name]


# -- the builders -----------------------------------------------------------------------------------------


def examples(dtype: str) -> list[Work]:
    """The kernels every roofline text begins with."""
    return [
        ops.axpy(n=1e8, dtype=dtype), ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, dtype=dtype), ops.gemm(m=4096, n=4096, k=4096, dtype=dtype),
    ]  # fmt: skip


def roofline(
    machine: Machine, predictions: Prediction | Iterable[Prediction] | None = None, works: Iterable[Work] | None = None, dtype: str | None = None,
    ceilings: str | None = None, title: str | None = None,
) -> Chart:  # fmt: skip
    """The roofline of a machine with kernels on it: bandwidth roof, compute roof, ridge, both regions."""
    notes: list[str] = []
    if predictions is None:
        name = dtype or default_dtype(machine)
        predictions, notes = _predictions(machine, examples(name) if works is None else works, ceilings)
    found = cases(predictions)
    engines, levels = _used(machine, found, dtype, ceilings)
    chart = _plane(machine, engines, levels, found, ceilings, "roofline", title or f"Roofline of {machine.name}", notes)
    return _without_common(chart)


def _without_common(chart: Chart) -> Chart:
    """Labels without the words that all labels of an op share: of `linear 4096→4096 b8` and `... b16` the batch remains."""
    words = [point.label.split() for point in chart.points if point.label and point.role != "ridge"]
    ops_seen: dict[str, list[list[str]]] = {}
    for each in words:
        ops_seen.setdefault(each[0], []).append(each[1:])
    shared = {name: set(lists[0]).intersection(*lists[1:]) for name, lists in ops_seen.items() if len(lists) > 2}
    shared = {
        name: common for name, common in shared.items() if common and all(set(rest) - common for rest in ops_seen[name])
    }
    if not shared:
        return chart

    def short(point: Point) -> Point:
        name, *rest = point.label.split() or [""]
        return (
            replace(point, label=" ".join([name, *(word for word in rest if word not in shared[name])]))
            if name in shared
            else point
        )

    told = [
        f"{name}: all {' '.join(word for word in ops_seen[name][0] if word in common)}"
        for name, common in shared.items()
    ]
    return replace(chart, points=tuple(short(point) for point in chart.points), notes=(*told, *chart.notes))


def ceilings_chart(
    machine: Machine, dtype: str | None = None, works: Iterable[Work] = (), ceilings: str | None = None
) -> Chart:
    """All memory levels with a known bandwidth and several compute roofs on one chart."""
    wanted = ["vector.fp32", "tensor.tf32", "tensor.bf16" if "tensor.bf16" in machine.peaks else "tensor.fp16"]
    if dtype is not None:
        wanted = [_engine(machine, dtype, ceilings), "vector.fp32"]
    engines = [name for name in dict.fromkeys(wanted) if known_peak(machine, name, ceilings) is not None]
    for name in ("vector.fp64", "tensor.fp8", "tensor.int8", "vector.bf16", ANY):
        if len(engines) < 2 and known_peak(machine, name, ceilings) is not None:
            engines.append(name)
    if not engines:
        engines = [_engine(machine, default_dtype(machine), ceilings)]
    levels = known_levels(machine, ceilings)
    if not levels:
        raise InputError(
            f"{machine.name} has no memory bandwidth, so there is no sloped roof to draw; give --bandwidth"
        )
    absent = [level.name for level in machine.levels if level.name not in levels]
    notes = (
        [
            f"no {ceilings or 'published'} bandwidth for {', '.join(absent)}, so {'it is' if len(absent) == 1 else 'they are'} left out"
        ]
        if absent
        else []
    )
    made, more = _predictions(machine, works, ceilings)
    engines = sorted(engines, key=lambda name: -machine.peak(name, ceilings).value)
    return _plane(
        machine, engines, levels, cases(made), ceilings, "ceilings", f"Ceilings of {machine.name}", [*notes, *more]
    )


def precision_peaks(machine: Machine, ceilings: str | None = None) -> tuple[list[str], list[str]]:
    """The engine of each format a machine computes in, and those left out (int1 and int32 are no formats of kernels people compare)."""
    chosen: list[str] = []
    left: list[str] = []
    for name in machine.dtypes():
        engine = next(
            (key for key in (f"tensor.{name}", f"vector.{name}") if known_peak(machine, key, ceilings) is not None),
            None,
        )
        if engine is None:
            continue
        (left if name in ("int1", "int32") else chosen).append(engine)
    if ANY in machine.peaks:
        chosen = [ANY]
    return sorted(chosen, key=lambda key: machine.peak(key, ceilings).value), left


def precisions(
    machine: Machine,
    dtype: str | None = None,
    work: Callable[[str], Work] | None = None,
    to: str | None = None,
    ceilings: str | None = None,
) -> Chart:
    """One bandwidth line and a flat roof with its ridge for every number format; an arrow for quantising a kernel.

    `work` makes the kernel in a format; the arrow goes from `dtype` to `to`.
    """
    engines, left = precision_peaks(machine, ceilings)
    if not engines:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    levels = [machine.bandwidth(MAIN, ceilings).name]
    notes = (
        [
            f"left out: {', '.join(f'{engine_title(name)} {rate(machine.peak(name, ceilings).value, name)}' for name in left)}"
        ]
        if left
        else []
    )
    make = work or (lambda name: ops.linear(batch=16, in_features=4096, out_features=4096, dtype=name))
    first = dtype or default_dtype(machine)
    names = [name.partition(".")[2] for name in engines]
    then = to or next((name for name in ("fp8", "int8") if name in names and name != first), None)
    found: list[Case] = []
    arrows: tuple[Arrow, ...] = ()
    if then is not None and ANY not in engines:
        made, more = _predictions(machine, [make(first), make(then)], ceilings)
        notes += more
        if len(made) == 2:
            found = [
                replace(case, name=f"{case.name.partition(' ')[0]} {name}")
                for case, name in zip(cases(made), (first, then), strict=True)
            ]
            found = [
                replace(case, time=case.floor) for case in found
            ]  # on the roofs, so that the arrow shows the ceilings' change alone
            before, after = found
            arrows = (
                Arrow(
                    (before.intensity, before.attainable),
                    (after.intensity, after.attainable),
                    f"quantise {first} to {then}",
                    "change",
                    "change",
                ),
            )
            notes.append(
                f"{name_of(make(first))}: {first} to {then} multiplies intensity by {after.intensity / before.intensity:.3g} and the ridge by "
                f"{machine.peak(after.engine, ceilings).value / machine.peak(before.engine, ceilings).value:.3g}; its least time falls {before.floor / after.floor:.3g}-fold"
            )
            notes.append("the kernel stands on its roofs (least time), not at its expected rate")
    chart = _plane(
        machine, engines, levels, found, ceilings, "precisions", f"Precisions of {machine.name}", notes, by_bound=False
    )

    def shown(point: Point) -> Point:
        if point.role == "ridge":
            return replace(point, label=show(point.x, "", 3))
        # these points are floors: an expected time must not stand in their data
        return replace(
            point,
            role="value",
            details={key: value for key, value in point.details.items() if key not in ("time_us", "bound", "limiter")},
        )

    dots = tuple(shown(point) for point in chart.points)
    values = {dot.y: dot for dot in dots if dot.role == "ridge"}
    lines = tuple(
        replace(line, label=f"{line.label}, ridge {show(values[line.points[0][1]].x, '', 3)}")
        if line.role == "peak"
        else line
        for line in chart.lines
    )
    unit = "OP/s" if all(is_integer(name) for name in engines) else "FLOP/s"
    return replace(chart, points=dots, lines=lines, arrows=arrows, marks=(), y=replace(chart.y, unit=unit))


def locality(
    machine: Machine, dtype: str | None = None, work: Work | None = None, ceilings: str | None = None
) -> Chart:
    """One kernel at several locality states, each level's own intensity against its own ceiling.

    x is flops over the bytes that cross the level. The default kernel is a product in square tiles: each operand once
    from the outermost memory, small tiles (16, 32, 64, 128) from the levels between, innermost first.
    """
    name = dtype or (work.dtype if work is not None else "") or default_dtype(machine)
    engine = _engine(machine, name, ceilings)
    levels = known_levels(machine, ceilings)
    if len(levels) < 2:
        raise InputError(
            f"{machine.name} has no inner level with a known bandwidth, so there is one locality state only; use the roofline chart"
        )
    inner = [level.name for level in machine.levels]
    peak = machine.peak(engine, ceilings).value
    points = []
    title = name_of(work) if work is not None else f"gemm 4096³ {name}"
    for level in levels:
        outer = level == machine.main.name
        if work is None:
            tile = None if outer else 16 * 2 ** min(3, inner.index(level))
            part = ops.gemm(
                m=4096, n=4096, k=4096, dtype=name, **({} if tile is None else {"traffic": "tiled", "tile": tile})
            )
            moved, how = float(part.bytes), "each operand once" if tile is None else f"{tile}-tiles"
        else:
            own = work.bytes_at(level) if not outer else 0.0
            moved, how = (
                float(own if np.any(np.asarray(own)) else work.bytes),
                "cold" if outer else ("its own traffic" if np.any(np.asarray(own)) else "same bytes"),
            )
        flops = float(part.flops if work is None else work.flops)
        speed = machine.bandwidth(level, ceilings).value
        state = f"cold, from {level_title(level)}" if outer else f"{level_title(level)} hit"
        points.append(
            Point(
                flops / moved,
                min(peak, speed * flops / moved),
                state,
                state,
                "value",
                f"{title}, {state}",
                {"level": level, "traffic": how, "flops": flops, "bytes": moved},
            )
        )
    found = [
        Case(
            point.label,
            float(point.details["flops"]),
            float(point.details["bytes"]),
            point.details["flops"] / point.y,
            point.details["flops"] / point.y,
            "",
            "",
            engine,
            "",
        )
        for point in points
    ]
    across, up = _spans(machine, [engine], levels, found, ceilings)
    lines, dots = _roofs(machine, [engine], levels, across, ceilings)
    absent = [level.name for level in machine.levels if level.name not in levels]
    notes = [f"no bandwidth known for {', '.join(absent)}: left out"] if absent else []
    lowest = min(points, key=lambda point: point.y)
    notes += [
        "traffic: " + ", ".join(f"{point.label} {point.details['traffic']}" for point in points),
        f"the lowest point binds: {lowest.label}"
        if lowest.y < peak * 0.999
        else "every level can feed the compute roof",
    ]
    return Chart(
        "locality", f"{title}: one kernel, {len(points)} places its data can be", Axis("arithmetic intensity at each level", PER_BYTE, LOG, across),
        Axis(PERFORMANCE, rate_unit([engine]), LOG, up), f"{title_of(machine)}, {kinds_used(machine, [engine], levels, ceilings)}", tuple(lines), (*dots, *points),
        regions=_regions([dots[0].x], across), marks=tuple(_ridge_marks(dots)), notes=("x of a point: flops over the bytes that cross that level", *notes),
    )  # fmt: skip


BLAS_GROUPS = (
    dict.fromkeys(("copy", "scal", "axpy", "dot", "asum"), "level 1")
    | dict.fromkeys(("gemv", "symv", "ger"), "level 2")
    | {"gemm": "level 3"}
)


def blas(
    machine: Machine,
    dtype: str | None = None,
    sizes: Sequence[int] = (64, 256, 1024, 4096),
    ceilings: str | None = None,
) -> Chart:
    """BLAS levels 1 to 3 on one chart, GEMM at several sizes."""
    name = dtype or _with_matrix(machine, "fp32", ceilings)
    n, side = 1e8, 16384
    works = [getattr(ops, each)(n=n, dtype=name) for each in ("copy", "scal", "axpy", "dot", "asum")]
    works += [ops.gemv(m=side, n=side, dtype=name), ops.symv(n=side, dtype=name), ops.ger(m=side, n=side, dtype=name)]
    works += [ops.gemm(m=size, n=size, k=size, dtype=name) for size in sizes]
    made, notes = _predictions(machine, works, ceilings)
    found = cases(made, BLAS_GROUPS)
    found = [
        replace(
            case,
            name=f"gemm {case.name.split()[1].rstrip('³')}" if case.name.startswith("gemm") else case.name.split()[0],
        )
        for case in found
    ]
    engines, levels = _used(machine, found, name, ceilings)
    chart = _plane(
        machine,
        engines,
        levels,
        found,
        ceilings,
        "blas",
        f"BLAS levels in {name} on {machine.name}",
        notes,
        by_bound=False,
    )
    crossing = _crossing(machine, name, ceilings)
    return replace(
        chart,
        notes=(
            f"gemm N³ reaches the ridge at N = {crossing}; level 1 has n = {_size(n)}, level 2 {side} x {side}",
            *chart.notes,
        ),
    )


def _with_matrix(machine: Machine, wanted: str, ceilings: str | None) -> str:
    """The wanted format where matrix products can run in it, else the machine's usual one."""
    try:
        _engine(machine, wanted, ceilings)
    except MissingFigure:
        return default_dtype(machine)
    return wanted


def _crossing(machine: Machine, dtype: str, ceilings: str | None) -> int:
    """The smallest N at which an N x N x N product reaches the ridge; its intensity grows in proportion to N."""
    ridge = machine.ridge(_engine(machine, dtype, ceilings), MAIN, ceilings)
    return math.ceil(ridge / float(ops.gemm(m=1, n=1, k=1, dtype=dtype).intensity()) * (1 - 1e-12))


def dl(
    machine: Machine,
    dtype: str | None = None,
    works: Mapping[str, Work] | Iterable[Work] | None = None,
    ceilings: str | None = None,
) -> Chart:
    """Deep-learning ops coloured by category; vector ops are judged against the vector roof, products against the matrix one."""
    name = dtype or default_dtype(machine)
    n, rows, cols = 2**26, 16384, 4096
    given = works if works is None or isinstance(works, Mapping) else {name_of(work): work for work in works}
    every = given if given is not None else {
        "relu": ops.relu(n=n, dtype=name), "add": ops.add(n=n, dtype=name), "gelu": ops.gelu(n=n, dtype=name),
        "softmax": ops.softmax(rows=rows, cols=cols, dtype=name), "layernorm": ops.layernorm(rows=rows, cols=cols, dtype=name),
        "QK^T": ops.bmm(batch=128, m=2048, n=2048, k=128, dtype=name),
        "standard attention": ops.attention(batch=4, heads=32, seq_q=2048, head_dim=128, variant="standard", dtype=name),
        "flash attention": ops.attention(batch=4, heads=32, seq_q=2048, head_dim=128, dtype=name),
        "conv 3x3": ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, dtype=name),
        "linear B=1": ops.linear(batch=1, in_features=4096, out_features=4096, dtype=name),
        "linear B=256": ops.linear(batch=256, in_features=4096, out_features=4096, dtype=name),
        "gemm 4096³": ops.gemm(m=4096, n=4096, k=4096, dtype=name),
    }  # fmt: skip
    found: list[Case] = []
    notes: list[str] = []
    for label, work in every.items():
        made, more = _predictions(machine, [work], ceilings)
        notes += more
        category = ops.OPS[work.name].category if work.name in ops.OPS else "other"
        found += [replace(case, name=label, group=category) for case in cases(made)]
    engines, levels = _used(machine, found, name, ceilings)
    if len(engines) > 1:
        notes.append(
            "elementwise ops and norms run on the vector units and are judged against their roof, the others against the matrix roof"
        )
    return _plane(
        machine,
        engines,
        levels,
        found,
        ceilings,
        "dl",
        f"Deep-learning ops in {name} on {machine.name}",
        notes,
        by_bound=False,
    )


def scale(
    machine: Machine, dtype: str | None = None, works: Iterable[Work] | None = None, ceilings: str | None = None
) -> Chart:
    """Arithmetic intensity as a line: ops and the ridges of the machine."""
    name = dtype or default_dtype(machine)
    given = works is not None
    listed = list(
        works
        or (
            ops.add(n=2**26, dtype="fp32"),
            ops.dot(n=2**26, dtype="fp32"),
            ops.gemm(m=1024, n=1024, k=1024, dtype="fp32"),
        )
    )
    titles = [name_of(work) for work in listed] if given else ["vector add", "dot product", "gemm 1024³"]
    points = []
    notes = [] if given else ["ops in fp32"]
    for work, label in zip(listed, titles, strict=True):
        at = float(np.ravel(np.asarray(work.intensity()))[0])
        if at > 0:
            points.append(
                Point(at, 0.5, f"{shorten(label, 26)} {show(at, '', 3)}", "op", "value", label, {"dtype": work.dtype})
            )
        else:
            notes.append(f"{label} does no flops: its intensity is 0")
    engine = _engine(machine, name, ceilings)
    engines = list(
        dict.fromkeys([engine, *(key for key in ("vector.fp32",) if known_peak(machine, key, ceilings) is not None)])
    )
    ridges = [
        Point(
            machine.ridge(key, MAIN, ceilings),
            0.5,
            f"ridge {engine_title(key)} {show(machine.ridge(key, MAIN, ceilings), '', 3)}",
            "",
            "ridge",
            f"ridge {key}",
        )
        for key in engines
    ]
    span = _power_span([point.x for point in (*points, *ridges)], 2.0, 4.0)
    first = ridges[0].x
    return Chart(
        "scale", f"Arithmetic intensity on {machine.name}", Axis(INTENSITY, PER_BYTE, LOG, span), Axis("", "", "linear", (0.0, 1.0), shown=False),
        f"{title_of(machine)}, ridge of {name} against {level_title(machine.main.name)}, {kinds_used(machine, engines, [MAIN], ceilings)}",
        (Line(((span[0], 0.5), (span[1], 0.5)), "guide", "", "", {}),), (*points, *ridges),
        regions=_regions([first], span), marks=(Mark("x", first, f"ridge of {engine_title(engine)}: {amount(first, PER_BYTE)}", "ridge"),), notes=tuple(notes),
    )  # fmt: skip


def peaks(machine: Machine, ceilings: str | None = None, sparse: bool = False) -> Chart:
    """Bars of the peak by precision on a log axis, with the factor over the fp64 and fp32 vector peaks."""
    values: dict[tuple[str, float], list[str]] = {}
    for key in machine.peaks:
        owner, _, name = key.partition(".")
        value = known_peak(machine, key, ceilings)
        if value is None or owner == "special" or (owner == "tensor-sparse" and not sparse):
            continue
        values.setdefault((owner, value), []).append(name)
    if not values:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    base = {name: known_peak(machine, f"vector.{name}", ceilings) for name in ("fp64", "fp32")}
    bars = []
    for (owner, value), names in sorted(values.items(), key=lambda item: (item[0][1], item[0][0])):
        against = [f"{_times(value / low)} {name}" for name, low in base.items() if low and value > low * 1.02]
        key = f"{owner}.{names[0]}" if names[0] else owner
        text = rate(value, key) + (f"   {' · '.join(against)}" if against else "")
        details = {f"times_{name}_vector": value / low for name, low in base.items() if low}
        bars.append(
            Bar(
                f"{', '.join(name for name in names if name)} {owner}".strip(),
                value,
                None,
                text,
                owner,
                "value",
                {"engine": owner, **details},
            )
        )
    biggest = max(bar.value for bar in bars)
    lowest = min(bar.value for bar in bars)
    known = [name for name, low in base.items() if low]
    notes = [
        f"factors are against the {' and '.join(known)} vector peak"
        if known
        else "no fp64 or fp32 vector peak to compare with",
        "dense peaks" if not sparse else "tensor-sparse: 2:4",
    ]
    span = (10 ** math.floor(math.log10(lowest / 2)), biggest * 1.3)
    unit = "OP/s" if all(is_integer(f"x.{bar.label.split()[0].rstrip(',')}") for bar in bars) else "FLOP/s"
    kinds = sorted(
        {
            machine.peak(f"{owner}.{names[0]}" if names[0] else owner, ceilings).kind
            for (owner, _), names in values.items()
        }
    )
    return Chart(
        "peaks", f"Peak by precision of {machine.name}", Axis("peak", unit, LOG, span), Axis("", "", "linear", (0.0, 1.0), shown=False),
        f"{title_of(machine)}, {' and '.join(kinds)} ceilings", bars=tuple(bars), notes=tuple(notes), look="bars",
    )  # fmt: skip


def _times(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 9.95 else f"{factor:.0f}x"


def pyramid(machine: Machine, ceilings: str | None = None) -> Chart:
    """The memory hierarchy from the core outwards: capacity of one and of all, bandwidth, latency."""
    bars, notes = [], []
    registers, units = machine.limits.get("registers_per_sm"), machine.units.get("sm")
    size = registers.value() if registers is not None else None
    if size is not None and units:
        text = f"{show(size, 'B', 4, binary=True)} x {units} = {show(size * units, 'B', 4, binary=True)}"
        bars.append(Bar("registers", size * units, None, text, "", "value", {"capacity": size, "instances": units}))
    for level in machine.levels:
        capacity, speed, wait = level.capacity.value(), level.bandwidth.value(ceilings), level.latency.value()
        each = show(capacity, "B", 4, binary=True) if capacity is not None else "capacity not known"
        total = level.total
        parts = [
            f"{each} x {level.instances} = {show(total, 'B', 4, binary=True)}"
            if level.instances > 1 and total is not None
            else each
        ]
        parts.append(
            f"{show(speed, 'B/s', 4)} ({level.bandwidth.kind(ceilings)})"
            if speed is not None
            else "bandwidth not known"
        )
        parts += [show(wait, "s", 3)] if wait is not None else []
        name = level_title(level.name) + (f" ({level.technology})" if level.technology else "")
        details = {
            "capacity": capacity,
            "instances": level.instances,
            "bandwidth": speed,
            "latency": wait,
            "scope": level.scope,
        }
        bars.append(Bar(name, total if total is not None else math.nan, None, " · ".join(parts), "", "value", details))
    if not bars:
        raise InputError(
            f"{machine.name} has no memory level to draw; fill a [[level]] in {machine.file or 'its file'}"
        )
    if all(level.latency.value() is None for level in machine.levels):
        notes.append("its file has no latencies")
    return Chart(
        "pyramid", f"Memory hierarchy of {machine.name}", Axis("", "", "linear", (0.0, 1.0), shown=False), Axis("", "", "linear", (0.0, 1.0), shown=False),
        title_of(machine), bars=tuple(bars), notes=tuple(notes), look="pyramid",
    )  # fmt: skip


def efficiency(
    machine: Machine,
    dtype: str | None = None,
    sizes: Sequence[int] = (128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    ceilings: str | None = None,
) -> Chart:
    """Expected rate of a square GEMM against its size, with the peak line; sizes shorter than a launch are marked as overhead."""
    name = dtype or default_dtype(machine)
    engine = _engine(machine, name, ceilings)
    peak = machine.peak(engine, ceilings).value
    axis = np.asarray(sizes, dtype=np.float64)
    found = cases(predict(ops.gemm(m=axis, n=axis, k=axis, dtype=name), machine, ceilings=ceilings))
    points = [
        Point(
            size,
            case.rate,
            f"{case.rate / peak * 100:.2g} %" if case.rate < 0.995 * peak else "100 %",
            "overhead" if case.bound == "overhead" else "gemm",
            "overhead" if case.bound == "overhead" else "expected",
            f"gemm {size}³",
            {"share_of_peak": case.rate / peak, **case.details()},
        )
        for size, case in zip(sizes, found, strict=True)
    ]
    notes = ["percentages are of the peak; expected device time, nothing was run"]
    if any(point.role == "overhead" for point in points):
        notes.append("overhead (squares in a drawing): the launch sets the time, so this is not a poor kernel")
    return Chart(
        "efficiency", f"Square GEMM in {name} on {machine.name}", Axis("N of an N x N x N product", "", LOG, _power_span(sizes, 2.0, 1.3)),
        Axis(PERFORMANCE, rate_unit([engine]), "linear", (0.0, peak * 1.12)), f"{title_of(machine)}, {kinds_used(machine, [engine], [MAIN], ceilings)}",
        (
            Line(tuple((point.x, point.y) for point in points), "series", "", "gemm", {}),
            Line(((_power_span(sizes, 2.0, 1.3)[0], peak), (_power_span(sizes, 2.0, 1.3)[1], peak)), "peak", f"peak {rate(peak, engine)}", "", {"engine": engine}),
        ), tuple(points), notes=tuple(notes),
    )  # fmt: skip


def batch(
    machine: Machine,
    dtype: str | None = None,
    in_features: int = 4096,
    out_features: int = 4096,
    weights: str | None = None,
    most: int = 16384,
    ceilings: str | None = None,
) -> Chart:
    """Intensity of a linear layer against batch, with the ridge, both regions, the saturation line and the critical batch."""
    name = dtype or default_dtype(machine)
    engine = _engine(machine, name, ceilings)
    ridge = machine.ridge(engine, MAIN, ceilings)
    width, stored = dtype_row(name).bytes, dtype_row(weights or name).bytes
    sweep = np.geomspace(1, most, 97)
    curve = np.asarray(batch_intensity(sweep, in_features, out_features, width, stored))
    top = float(saturation(in_features, out_features, width))
    critical = float(critical_batch(ridge, in_features, out_features, width, stored))
    shown = [float(4**power) for power in range(int(math.log(most, 4)) + 1)]
    at = [float(batch_intensity(size, in_features, out_features, width, stored)) for size in shown]
    points = [
        Point(size, value, show(value, "", 3), "", "value", f"B = {size:g}")
        for size, value in zip(shown, at, strict=True)
    ]
    notes = [f"saturates at {show(top, '', 4)} {PER_BYTE} for ever larger batches"]
    if math.isfinite(critical):
        points.append(
            Point(
                critical,
                float(batch_intensity(critical, in_features, out_features, width, stored)),
                f"critical batch {critical:.0f}",
                "",
                "ridge",
                "critical batch",
                {"batch": critical},
            )
        )
    else:
        notes.append(f"never reaches the ridge: {show(top, '', 4)} is below {show(ridge, '', 4)}")
    low, high = _power_span([float(curve[0]), top, ridge, float(curve[-1])], 2.0, 1.5)
    span = (2.0**-1, most * 2.0)
    kind = kinds_used(machine, [engine], [MAIN], ceilings)
    return Chart(
        "batch", f"Linear {in_features} to {out_features} in {name}{f' with {weights} weights' if weights else ''}: intensity against batch",
        Axis("batch", "", LOG, span), Axis(INTENSITY, PER_BYTE, LOG, (low, high)), f"{title_of(machine)}, {kind}",
        (Line(tuple(zip(sweep.tolist(), curve.tolist(), strict=True)), "series", "", "linear layer", {}),), tuple(points),
        regions=(Region("memory-bound", None, (low, min(ridge, high)), "memory"), Region("compute-bound", None, (min(ridge, high), high), "compute")),
        marks=(Mark("y", ridge, f"ridge: {amount(ridge, PER_BYTE)}", "ridge"), Mark("y", top, f"saturation: {amount(top, PER_BYTE)}", "saturation")), notes=tuple(notes),
    )  # fmt: skip


FLAGSHIPS = ("p100-sxm2-16gb", "v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")
COMPARED = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")


def _others(machine: Machine, most: int = 3) -> list[Machine]:
    """Machines to set beside one: well-known ones of its kind, else the fastest of its kind in the catalog."""
    have = (
        [name for name in COMPARED if name in catalog.names() and name != machine.name] if machine.kind == "gpu" else []
    )
    if have:
        return [machine, *(catalog.load(name) for name in have[: most - 1])]
    same = [
        other
        for other in catalog.everything()
        if other.kind == machine.kind and other.name != machine.name and known_levels(other)
    ]
    same = sorted((other for other in same if other.peaks), key=lambda other: -(other.main.bandwidth.value() or 0.0))
    return [machine, *same[: most - 1]]


def compare(
    machine: Machine,
    machines: Sequence[Machine] | None = None,
    dtype: str | None = None,
    works: Iterable[Work] = (),
    ceilings: str | None = None,
) -> Chart:
    """The roofs of two or more machines on one chart, with the ridge of each; works stand on the first machine's and the others' roofs."""
    listed = list(machines) if machines else _others(machine)
    listed = [machine, *(other for other in listed if other.name != machine.name)]
    lines: list[Line] = []
    dots: list[Point] = []
    marks: list[Mark] = []
    notes: list[str] = []
    used = []
    for other in listed:
        name = dtype or default_dtype(other)
        try:
            used.append((other, name, _engine(other, name, ceilings), other.bandwidth(MAIN, ceilings).value))
        except MissingFigure as missing:
            notes.append(f"{other.name} left out: {missing}")
    if not used:
        raise InputError("none of these machines has a peak and a bandwidth to draw: " + "; ".join(notes))
    tops = [other.peak(engine, ceilings).value for other, _, engine, _ in used]
    ridges = [top / speed for top, (_, _, _, speed) in zip(tops, used, strict=True)]
    points: list[Point] = []
    for other, _, _, _ in used:
        made, more = _predictions(other, works, ceilings)
        notes += more
        points += [
            replace(point, group=other.name, label=f"{point.label}")
            for point in _dots([case for case in cases(made) if _has_place(other, case)], False)[0]
            if point.role != "floor"
        ]
    across = _power_span([min(ridges) / 32, max(ridges) * 10, *(point.x for point in points)], 2.0, 1.1)
    for other, name, engine, _ in used:
        own, corner = _roofs(other, [engine], [other.main.name], across, ceilings, other.name)
        lines += [
            replace(line, label=f"{other.name} {line.label}" if line.role == "peak" else line.label) for line in own
        ]
        dots += corner
        marks.append(
            Mark(
                "x",
                corner[0].x,
                f"ridge of {other.name} ({name}): {amount(corner[0].x, PER_BYTE)}",
                "ridge",
                other.name,
            )
        )
    low = min(across[0] * speed for _, _, _, speed in used)
    up = (10 ** (math.floor(math.log10(low) * 4) / 4), 10 ** (math.ceil(math.log10(max(tops) * 1.6) * 4) / 4))
    differing = len({name for _, name, _, _ in used}) > 1
    if differing:
        notes.append("each machine in the format it is usually judged by; give a dtype to compare one")
    return Chart(
        "compare", "Roofs of " + ", ".join(other.name for other, _, _, _ in used), Axis(INTENSITY, PER_BYTE, LOG, across),
        Axis(PERFORMANCE, rate_unit(engine for _, _, engine, _ in used), LOG, up), "; ".join(f"{other.name}: {kinds_used(other, [engine], [MAIN], ceilings)}" for other, _, engine, _ in used),
        tuple(lines), (*dots, *points), regions=_regions(ridges, across), marks=tuple(marks), notes=tuple(notes),
    )  # fmt: skip


def phases(
    machine: Machine,
    dtype: str | None = None,
    tokens: int = 2048,
    hidden: int = 4096,
    inter: int = 14336,
    heads: int = 32,
    ceilings: str | None = None,
) -> Panel:
    """Prefill and decode of one transformer layer side by side: the same ops at `tokens` rows and at one."""
    name = dtype or default_dtype(machine)
    parts: dict[str, list[Case]] = {}
    notes: list[str] = []
    for phase, rows in (("prefill", tokens), ("decode", 1)):
        works = {
            "projection": ops.linear(batch=rows, in_features=hidden, out_features=hidden, dtype=name),
            "mlp": ops.linear(batch=rows, in_features=hidden, out_features=inter, dtype=name),
            "attention": ops.attention(batch=1, heads=heads, seq_q=rows, seq_kv=tokens, head_dim=hidden // heads, causal=True, dtype=name),
            "norm": ops.rmsnorm(rows=rows, cols=hidden, dtype=name),
        }  # fmt: skip
        made = {label: _predictions(machine, [work], ceilings) for label, work in works.items()}
        notes += [note for _, more in made.values() for note in more]
        parts[phase] = [
            replace(case, name=label, group=label) for label, (done, _) in made.items() for case in cases(done)
        ]
    every = [case for found in parts.values() for case in found]
    engines, levels = _used(machine, every, name, ceilings)
    spans = _spans(machine, engines, levels, every, ceilings)
    charts = tuple(
        _plane(
            machine,
            engines,
            levels,
            found,
            ceilings,
            "phases",
            f"{phase}, {tokens if phase == 'prefill' else 1} token{'s' if phase == 'prefill' else ''}",
            (),
            False,
            spans,
        )
        for phase, found in parts.items()
    )
    shared = tuple(dict.fromkeys([*notes, *(note for chart in charts for note in chart.notes)]))
    charts = tuple(replace(chart, notes=(), subtitle="") for chart in charts)
    return Panel(
        f"Prefill and decode in {name} on {machine.name}",
        charts,
        f"{title_of(machine)}, one layer of width {hidden}, {kinds_used(machine, engines, levels, ceilings)}",
        shared,
        "phases",
    )


def trend(
    machine: Machine, machines: Sequence[Machine] | None = None, dtype: str | None = None, ceilings: str | None = None
) -> Chart:
    """Generations: peak, bandwidth and ridge relative to the first, by year of release.

    Without a list: the machines of this vendor and kind that set a bandwidth record when they appeared.
    """
    listed = (
        list(machines)
        if machines
        else [other for other in catalog.everything() if (other.vendor, other.kind) == (machine.vendor, machine.kind)]
    )
    rows: dict[int, tuple[Machine, float, float]] = {}
    best = 0.0
    for other in sorted(
        (each for each in listed if each.released and each.levels),
        key=lambda each: (
            each.released or 0,
            each.name not in FLAGSHIPS,
            -(each.main.bandwidth.value(ceilings) or 0.0),
            each.name,
        ),
    ):
        if int(other.released or 0) in rows:
            continue
        try:
            peak = other.peak(_engine(other, dtype or _sixteen(other), ceilings), ceilings).value
            speed = other.bandwidth(MAIN, ceilings).value
        except InputError:
            continue
        if machines or speed > best:
            best = max(best, speed)
            rows[int(other.released or 0)] = (other, peak, speed)
    if len(rows) < 2:
        raise InputError(
            f"a trend needs two generations with a release year, a peak and a bandwidth; found {len(rows)} for {machine.vendor or machine.name}; give --machines"
        )
    first = next(iter(rows.values()))
    lines, points = [], []
    top = 1.0
    # names stand on the series that is on top at the end
    series: dict[str, Callable[[float, float], float]] = {
        "peak": lambda peak, speed: peak / first[1],
        "bandwidth": lambda peak, speed: speed / first[2],
        "ridge": lambda peak, speed: (peak / speed) / (first[1] / first[2]),
    }
    for label, of in series.items():
        values = [(float(year), of(peak, speed)) for year, (_, peak, speed) in rows.items()]
        top = max(top, *(value for _, value in values))
        lines.append(Line(tuple(values), "series", "", label, {}))
        for (year, value), (other, peak, speed) in zip(values, rows.values(), strict=True):
            name = other.name if label == "peak" else (f"{value:.2g}x" if value >= 1.005 or value <= 0.995 else "")
            points.append(
                Point(
                    year,
                    value,
                    name,
                    label,
                    "value",
                    other.name,
                    {"factor": value, "peak": peak, "bandwidth": speed, "ridge": peak / speed},
                )
            )
    years = list(rows)
    least = min(point.y for point in points)
    (older, *was), (newer, *now) = list(rows.values())[-2:]
    compute, memory = now[0] / was[0], now[1] / was[1]
    last, before = newer.name, older.name
    gains = "compute-bound work gains more" if compute > memory else "memory-bound work gains more"
    return Chart(
        "trend", f"Generations of {machine.vendor} {machine.kind.upper()}: growth since {first[0].name}", Axis("year of release", "year", "linear", (years[0] - 0.8, years[-1] + 1.4)),
        Axis(f"relative to {first[0].name}", "", LOG, _power_span([least, top], 2.0, 1.2)), f"dense peaks in {dtype or '16-bit formats where there are any'}", tuple(lines), tuple(points),
        notes=(f"{before} to {last}: compute {compute:.3g}x, bandwidth {memory:.3g}x, so {gains}",),
    )  # fmt: skip


def _sixteen(machine: Machine) -> str:
    """The fastest 16-bit format, else the usual one."""
    have = {
        name: max(known_peak(machine, f"{owner}.{name}", None) or 0.0 for owner in ("tensor", "vector"))
        for name in ("bf16", "fp16")
    }
    best = max(have, key=lambda name: have[name])
    return best if have[best] > 0 else default_dtype(machine)


@dataclass(frozen=True)
class Seen:
    """A kernel as it was seen: observed intensity and rate, and the intensity its algorithm would allow."""

    name: str
    intensity: float
    rate: float
    algorithmic: float | None = None


def gaps(
    machine: Machine, points: Iterable[Seen] | None = None, dtype: str | None = None, ceilings: str | None = None
) -> Chart:
    """Observed points with their vertical gap to the roof as an arrow, and algorithmic intensity as a target to the right."""
    name = dtype or default_dtype(machine)
    engine = _engine(machine, name, ceilings)
    peak, speed = machine.peak(engine, ceilings).value, machine.bandwidth(MAIN, ceilings).value
    ridge = peak / speed
    given = points is not None
    seen = list(
        points or (Seen("M", ridge / 24, speed * ridge / 24 * 0.45, ridge / 8), Seen("C", ridge * 3, peak * 0.4))
    )
    dots: list[Point] = []
    arrows: list[Arrow] = []
    lines: list[Line] = []
    for item in seen:
        roof = min(peak, speed * positive(f"intensity of {item.name}", item.intensity))
        factor = roof / positive(f"rate of {item.name}", item.rate)
        side = "memory" if item.intensity < ridge else "compute"
        details = {
            "vertical_gap": factor,
            "algorithmic_intensity": item.algorithmic,
            "horizontal_gap": item.algorithmic / item.intensity if item.algorithmic else None,
        }
        dots.append(
            Point(item.intensity, item.rate, shorten(item.name), f"{side} side", "observed", item.name, details)
        )
        if factor > 1.02:
            arrows.append(
                Arrow(
                    (item.intensity, item.rate), (item.intensity, roof), f"{_times(factor)} gap", "gap", f"{side} side"
                )
            )
        if item.algorithmic is not None and item.algorithmic > item.intensity * 1.001:
            dots.append(
                Point(
                    item.algorithmic,
                    item.rate,
                    f"algorithmic, {_times(item.algorithmic / item.intensity)}",
                    f"{side} side",
                    "target",
                    f"{item.name} algorithmic",
                    {},
                )
            )
            lines.append(
                Line(((item.intensity, item.rate), (item.algorithmic, item.rate)), "target", "", f"{side} side", {})
            )
    above = [item.name for item in seen if item.rate > min(peak, speed * item.intensity) * 1.02]
    notes = ["solid: observed; hollow: where the algorithm's own traffic would put it"] + (
        [] if given else ["example points, not measurements"]
    )
    if above:
        notes.append(f"{', '.join(above)} above the roof: check the flop count, the precision and the ceilings")
    found = [
        Case(item.name, item.intensity, 1.0, item.intensity / item.rate, item.intensity / item.rate, "", "", engine, "")
        for item in seen
    ]
    found += [replace(case, flops=item.algorithmic) for case, item in zip(found, seen, strict=True) if item.algorithmic]
    across, up = _spans(machine, [engine], [MAIN], found, ceilings)
    roofs, corner = _roofs(machine, [engine], [machine.main.name], across, ceilings)
    return Chart(
        "gaps", f"Gaps on {machine.name}", Axis(f"{INTENSITY}, observed", PER_BYTE, LOG, across), Axis(PERFORMANCE, rate_unit([engine]), LOG, up),
        f"{title_of(machine)}, {kinds_used(machine, [engine], [MAIN], ceilings)}", (*roofs, *lines), (*corner, *dots), regions=_regions([ridge], across),
        marks=tuple(_ridge_marks(corner)), arrows=tuple(arrows), notes=tuple(notes),
    )  # fmt: skip


def bandwidth_bars(
    rows: Iterable[tuple[str, float, float | None]],
    title: str = "Theoretical against measured bandwidth",
    notes: Sequence[str] = (),
) -> Chart:
    """Bars of theoretical and measured bandwidth (B/s) per device with the percentage; a device without a measurement shows one bar."""
    bars = []
    for name, spec, seen in rows:
        bars.append(
            Bar(name, positive(f"bandwidth of {name}", spec), None, show(spec, "B/s", 4), "theoretical", "value", {})
        )
        if seen is not None:
            share = positive(f"measured bandwidth of {name}", seen) / spec
            bars.append(
                Bar(
                    name,
                    seen,
                    None,
                    f"{show(seen, 'B/s', 4)}   {share * 100:.1f} %",
                    "measured",
                    "measured",
                    {"share": share},
                )
            )
    if not bars:
        raise InputError("there is no bandwidth to draw; give at least one device")
    return Chart(
        "bandwidth", title, Axis("bandwidth", "B/s", "linear", (0.0, max(bar.value for bar in bars) * 1.02)), Axis("", "", "linear", (0.0, 1.0), shown=False),
        "percent of the theoretical figure", bars=tuple(bars), notes=tuple(notes), look="bars",
    )  # fmt: skip


def bandwidth(machine: Machine, machines: Sequence[Machine] | None = None, measured: float | None = None) -> Chart:
    """Theoretical against measured bandwidth; without a measurement of one's own, the public one the machine file carries."""
    listed = [machine, *(other for other in machines or () if other.name != machine.name)]
    rows: list[tuple[str, float, float | None]] = []
    notes: list[str] = []
    for other in listed:
        spec = other.main.bandwidth.value("stated") or other.main.bandwidth.value("derived")
        if spec is None:
            notes.append(f"{other.name} states no bandwidth")
            continue
        seen = measured if other is machine and measured is not None else other.main.bandwidth.measured
        public = other.efficiency.get(other.main.name)
        if seen is None and public is not None and public.value() is not None:
            seen = spec * float(public.value() or 0.0)
            notes.append(f"{other.name}: public measurement, {public.source}")
        elif seen is None:
            notes.append(f"{other.name}: nothing measured yet")
        rows.append((other.name, spec, seen))
    return bandwidth_bars(rows, notes=notes)


def waterfall(
    title: str,
    unit: str,
    peak: float,
    losses: Iterable[tuple[str, float]],
    measured: float,
    subtitle: str = "",
    notes: Sequence[str] = (),
) -> Chart:
    """From a peak through named losses (amounts, same unit) to what was measured; what no cause explains is a bar of its own."""
    positive("peak", peak)
    positive("measured", measured)
    bars = [Bar("peak", peak, 0.0, f"{show(peak, unit, 4)}   100 %", "peak", "value", {})]
    left = peak
    for cause, lost in losses:
        if not 0 <= lost <= left:
            raise InputError(
                f"loss '{cause}' of {show(lost, unit)} does not fit: {show(left, unit)} is left of the peak"
            )
        bars.append(
            Bar(cause, left, left - lost, f"-{show(lost, unit, 4)}   {lost / peak * 100:.1f} %", "loss", "loss", {})
        )
        left -= lost
    rest = left - measured
    told = list(notes)
    if abs(rest) > 1e-9 * peak:
        if rest < 0:
            told.append("the named losses add up to more than was lost")
        bars.append(
            Bar(
                "unexplained",
                max(left, measured),
                min(left, measured),
                f"{'-' if rest > 0 else '+'}{show(abs(rest), unit, 4)}   {abs(rest) / peak * 100:.1f} %",
                "unexplained",
                "unexplained",
                {"remainder": rest},
            )
        )
    bars.append(
        Bar(
            "measured",
            measured,
            0.0,
            f"{show(measured, unit, 4)}   {measured / peak * 100:.1f} %",
            "measured",
            "measured",
            {},
        )
    )
    return Chart(
        "losses", title, Axis("rate", unit, "linear", (0.0, peak * 1.02)), Axis("", "", "linear", (0.0, 1.0), shown=False), subtitle or "percent of the peak",
        bars=tuple(bars), notes=tuple(told), look="bars",
    )  # fmt: skip


def losses(
    machine: Machine,
    dtype: str | None = None,
    memory: tuple[Sequence[tuple[str, float]], float] | None = None,
    compute: tuple[Sequence[tuple[str, float]], float] | None = None,
) -> Picture:
    """Loss cascades of a memory-bound and a compute-bound kernel: `(losses, measured)` each, in B/s and flop/s.

    Without numbers of one's own the public measurement of the machine file is shown, all of its loss unexplained.
    """
    engine = _engine(machine, dtype or default_dtype(machine), None)
    sides = (
        ("memory-bound", machine.main.bandwidth, "B/s", machine.main.name, memory),
        ("compute-bound", machine.peaks[engine], rate_unit([engine]), engine, compute),
    )
    made, notes = [], []
    for title, figure, unit, name, given in sides:
        peak = figure.value("stated") or figure.value("derived") or figure.value()
        public = machine.efficiency.get(name)
        if peak is None:
            continue
        if given is not None:
            made.append(waterfall(title, unit, peak, given[0], given[1]))
        elif public is not None and public.value() is not None:
            made.append(
                waterfall(title, unit, peak, (), peak * float(public.value() or 0.0), f"{name}: public measurement")
            )
            notes.append(f"{name}: {public.source}")
        else:
            notes.append(f"nothing measured for {name}")
    if not made:
        raise InputError(
            f"{machine.name}: nothing was measured, so there is no loss to draw; measure it first, or give memory= or compute= numbers"
        )
    if len(made) == 1:
        return replace(made[0], title=f"Losses on {machine.name}, {made[0].title}", notes=tuple(notes))
    return Panel(f"Losses on {machine.name}", tuple(made), title_of(machine), tuple(notes), "losses")


# -- the registry -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A chart by name; called with a machine and those options its builder takes."""

    name: str
    build: Callable[..., Picture]

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.build) or "").splitlines()[0]

    @property
    def options(self) -> list[str]:
        return [name for name in inspect.signature(self.build).parameters if name != "machine"]

    def __call__(self, machine: Machine, **options: Any) -> Picture:
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                raise unknown(f"option of the {self.name} chart", name, self.options)
        return self.build(machine, **given)


_BUILDERS: dict[str, Callable[..., Picture]] = {
    "roofline": roofline, "ceilings": ceilings_chart, "precisions": precisions, "locality": locality, "blas": blas, "dl": dl, "scale": scale,
    "peaks": peaks, "pyramid": pyramid, "efficiency": efficiency, "batch": batch, "compare": compare, "phases": phases, "trend": trend,
    "gaps": gaps, "bandwidth": bandwidth, "losses": losses,
}  # fmt: skip
CHARTS = {name: Kind(name, build) for name, build in _BUILDERS.items()}


def find(name: str) -> Kind:
    if name not in CHARTS:
        raise unknown("chart", name, CHARTS, "See `ridgeline chart`.")
    return CHARTS[name]
