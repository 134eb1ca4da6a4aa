"""The roofline plane: how figures are worded, predictions as cases, and the roofs, regions and points charts are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.dtypes import TABLE
from ...core.errors import InputError, MissingFigure
from ...core.machine import MAIN, Machine
from ...core.units import show
from ...core.work import Work
from ...prediction.compare import default_dtype
from ...prediction.predict import Prediction, plain, predict
from ..chart import LOG, Axis, Chart, Line, Mark, Point, Region
from ..draw.labels import amount, shorten

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


def times(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 9.95 else f"{factor:.0f}x"


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


def size_text(value: float) -> str:
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
        sizes.append((key, size_text(float(flat[index if flat.size > 1 else 0]))))
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
        for step, item, meant in zip(prediction.steps, prediction.bounds, prediction.expected, strict=True):
            alone = replace(prediction, steps=(replace(step, count=1.0),), bounds=(item,), expected=(meant,))
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


def predict_each(machine: Machine, works: Iterable[Work], ceilings: str | None) -> tuple[list[Prediction], list[str]]:
    """Predictions of those works the machine can do, and a sentence for each it cannot."""
    done, notes = [], []
    for work in works:
        try:
            done.append(predict(work, machine, ceilings=ceilings))
        except MissingFigure as missing:
            notes.append(f"{name_of(work)} left out: {missing}")
    return done, notes


def has_place(machine: Machine, case: Case) -> bool:
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
        if has_place(machine, case):
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


def power_span(values: Iterable[float], base: float, margin: float) -> tuple[float, float]:
    """A range around positive values that begins and ends at powers of `base`."""
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = math.log(min(usable) / margin, base), math.log(max(usable) * margin, base)
    return base ** math.floor(low + 1e-9), base ** math.ceil(high - 1e-9)


def roof_lines(
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


def ridge_marks(dots: Sequence[Point], group: str = "") -> list[Mark]:
    many = len(dots) > 1
    return [
        Mark("x", dot.x, f"{dot.name if many else 'ridge'}: {amount(dot.x, PER_BYTE)}", "ridge", group) for dot in dots
    ]


def bound_regions(ridges: Sequence[float], span: tuple[float, float]) -> tuple[Region, ...]:
    """Left of the first ridge everything is memory-bound, right of the last compute-bound; between them it depends on the engine."""
    return (
        Region("memory-bound", (span[0], min(ridges)), None, "memory"), Region("compute-bound", (max(ridges), span[1]), None, "compute"),
    )  # fmt: skip


def case_points(found: Sequence[Case], by_bound: bool) -> tuple[list[Point], list[Line]]:
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


def axis_spans(
    machine: Machine, engines: Sequence[str], levels: Sequence[str], found: Sequence[Case], ceilings: str | None
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ranges of both axes: every ridge with room to its sides, and every point."""
    peaks = [machine.peak(name, ceilings).value for name in engines]
    speeds = [machine.bandwidth(name, ceilings).value for name in levels]
    ridges = [peak / speed for peak in peaks for speed in speeds]
    least, most = min(ridges) / 16, max(ridges) * 8
    across = power_span(
        [least, most, *(case.intensity for case in found), *(case.intensity * 1.5 for case in found)], 2.0, 1.25
    )
    low = min([across[0] * min(speeds) * 2, *(case.rate for case in found)])
    return across, (
        10 ** (math.floor(math.log10(low / 1.6) * 4) / 4),
        10 ** (math.ceil(math.log10(max(peaks) * 1.5) * 4) / 4),
    )


def engine_for(machine: Machine, dtype: str, ceilings: str | None, asked: str = "matrix") -> str:
    name = machine.engine(asked, dtype)
    machine.peak(name, ceilings)  # says what is missing when it is
    return name


def plane_chart(
    machine: Machine, engines: Sequence[str], levels: Sequence[str], found: Sequence[Case], ceilings: str | None, kind: str, title: str,
    notes: Sequence[str] = (), by_bound: bool = True, spans: tuple[tuple[float, float], tuple[float, float]] | None = None,
) -> Chart:  # fmt: skip
    """A roofline chart of some engines and levels with cases on it."""
    placed = [case for case in found if has_place(machine, case)]
    if len(placed) > MOST_POINTS:
        raise InputError(f"{len(placed):,} points are more than a chart can show; pick {MOST_POINTS:,} or fewer")
    across, up = spans or axis_spans(machine, engines, levels, placed, ceilings)
    lines, dots = roof_lines(machine, engines, levels, across, ceilings)
    points, guides = case_points(placed, by_bound)
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
        regions=bound_regions([dot.x for dot in dots], across), marks=tuple(ridge_marks(dots)), notes=tuple(told), unplaced=tuple(rows),
    )  # fmt: skip


def roofs_used(
    machine: Machine, found: Sequence[Case], dtype: str | None, ceilings: str | None
) -> tuple[list[str], list[str]]:
    """Engines and levels that cases are judged against, the highest roof and the outermost level first."""
    engines = [case.engine for case in found if case.engine and not case.engine.startswith("special")]
    if dtype is not None or not engines:
        engines.append(engine_for(machine, dtype or default_dtype(machine), ceilings))
    engines = sorted(set(engines), key=lambda name: (-machine.peak(name, ceilings).value, name))
    have = known_levels(machine, ceilings)
    used = [level for level in have if any(case.level == level for case in found if has_place(machine, case))]
    return engines, used or [machine.bandwidth(MAIN, ceilings).name]
