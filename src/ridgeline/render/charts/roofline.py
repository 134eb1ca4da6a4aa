"""The roofs of one machine: sets of kernels under them, all levels and engines, all formats, one kernel at every level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...core.errors import InputError
from ...core.machine import ANY, MAIN, Machine
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for, known_levels, known_peak
from ...prediction.kernel_sets import Entry, KernelSet
from ...prediction.locality import LevelTraffic, Locality
from ...prediction.precisions import Quantization
from ...prediction.predict import Prediction
from ...prediction.studies import Phases
from ..chart import Arrow, Chart, Panel, Point
from .plane import Roofs, kernel_points, plane_chart, roof_chart, roofs_used
from .wording import engine_title, level_title, rate, title_of

OTHER_ENGINES = ("vector.fp64", "tensor.fp8", "tensor.int8", "vector.bf16", ANY)
MIN_SHARED_LABELS = 3  # of one op, before what they share is said once


def roofline(study: KernelSet) -> Chart:
    """Bandwidth roof, compute roof, ridge and both regions, with kernels coloured by what bounds them."""
    return _without_shared_words(plane_chart("roofline", study, by_bound=True))


def _without_shared_words(chart: Chart) -> Chart:
    """Labels without the words that all labels of an op share: of `linear 4096→4096 b8` and `... b16` the batch remains."""
    labels: dict[str, list[list[str]]] = {}
    for point in chart.points:
        if point.label and point.role != "ridge":
            op, *words = point.label.split()
            labels.setdefault(op, []).append(words)
    shared: dict[str, set[str]] = {}
    for op, lists in labels.items():
        common = set(lists[0]).intersection(*lists[1:])
        if common and len(lists) >= MIN_SHARED_LABELS and all(set(words) - common for words in lists):
            shared[op] = common
    if not shared:
        return chart

    def shortened(point: Point) -> Point:
        op, *words = point.label.split() or [""]
        return replace(point, label=" ".join([op, *(word for word in words if word not in shared.get(op, ()))]))

    notes = [f"{op}: all {' '.join(word for word in labels[op][0] if word in shared[op])}" for op in shared]
    return replace(chart, points=tuple(map(shortened, chart.points)), notes=(*notes, *chart.notes))


def dl(study: KernelSet) -> Chart:
    """Deep-learning ops coloured by category."""
    roofs = roofs_used(study)
    note = "elementwise ops and norms run on the vector units and are judged against their roof, the others against the matrix roof"
    notes = (*study.notes, note) if len(roofs.engines) > 1 else study.notes
    return plane_chart("dl", replace(study, notes=notes), roofs)


def phases(study: Phases) -> Panel:
    """Prefill and decode side by side under the same roofs and axes."""
    both = (study.prefill, study.decode)
    machine = study.prefill.machine
    every = replace(study.prefill, entries=(*study.prefill.entries, *study.decode.entries))
    roofs = roofs_used(every)
    ranges = roofs.ranges([(kernel.intensity, kernel.rate) for kernel in every.kernels])
    charts = [plane_chart("phases", replace(phase, notes=()), roofs, ranges) for phase in both]
    notes = [note for phase in both for note in phase.notes] + [note for chart in charts for note in chart.notes]
    return Panel(
        f"Prefill and decode in {study.dtype} on {machine.name}",
        tuple(replace(chart, notes=(), subtitle="") for chart in charts),
        f"{title_of(machine)}, one layer of width {study.hidden}, {roofs.kinds}",
        tuple(dict.fromkeys(notes)),
        "phases",
    )


def ceilings_chart(
    machine: Machine, dtype: str | None = None, predictions: Iterable[Prediction] = (), ceilings: str | None = None
) -> Chart:
    """All memory levels with a known bandwidth and several compute roofs."""
    levels = known_levels(machine, ceilings)
    if not levels:
        raise InputError(
            f"{machine.name} has no memory bandwidth, so there is no sloped roof to draw; give a bandwidth"
        )
    absent = [level.name for level in machine.levels if level.name not in levels]
    left_out = f"{', '.join(absent)}, so {'it is' if len(absent) == 1 else 'they are'} left out"
    notes = (f"no {ceilings or 'published'} bandwidth for {left_out}",) if absent else ()
    entries = tuple(Entry("", prediction) for prediction in predictions)
    study = KernelSet(machine, entries, dtype, ceilings, f"Ceilings of {machine.name}", notes)
    roofs = Roofs(machine, _shown_engines(machine, dtype, ceilings), levels, ceilings)
    return plane_chart("ceilings", study, roofs, by_bound=True)


def _shown_engines(machine: Machine, dtype: str | None, ceilings: str | None) -> list[str]:
    """Vector and matrix units of the usual formats, at least two where the machine has as many, the fastest first."""
    sixteen = "tensor.bf16" if "tensor.bf16" in machine.peaks else "tensor.fp16"
    wanted = ["vector.fp32", "tensor.tf32", sixteen]
    if dtype is not None:
        wanted = [engine_for(machine, dtype, ceilings), "vector.fp32"]
    engines = [name for name in dict.fromkeys(wanted) if known_peak(machine, name, ceilings) is not None]
    for name in OTHER_ENGINES:
        if len(engines) < 2 and known_peak(machine, name, ceilings) is not None:
            engines.append(name)
    engines = engines or [engine_for(machine, default_dtype(machine), ceilings)]
    return sorted(engines, key=lambda name: -machine.peak(name, ceilings).value)


def precisions(study: Quantization) -> Chart:
    """One bandwidth line and a flat roof with its ridge for every number format; an arrow for quantizing a kernel."""
    machine, ceilings = study.machine, study.ceilings
    roofs = Roofs(machine, study.engines, [machine.bandwidth(MAIN, ceilings).name], ceilings)
    pair = [kernel for kernel in (study.before, study.after) if kernel is not None]
    plane = KernelSet(machine, (), study.dtype, ceilings, f"Precisions of {machine.name}", _quantization_notes(study))
    spots = [(kernel.intensity, kernel.rate) for kernel in pair]
    chart = plane_chart("precisions", plane, roofs, roofs.ranges(spots))
    # the kernels are on their roofs: an expected time must not be in their data
    kernels = tuple(
        replace(point, role="value", details={key: point.details[key] for key in ("flops", "bytes", "floor_us")})
        for point in kernel_points(pair, False)[0]
    )
    ridges = {dot.y: replace(dot, label=show(dot.x, "", 3)) for dot in chart.points}
    lines = tuple(
        replace(line, label=f"{line.label}, ridge {ridges[line.points[0][1]].label}") if line.role == "peak" else line
        for line in chart.lines
    )
    arrows: tuple[Arrow, ...] = ()
    if len(spots) == 2:
        arrows = (Arrow(spots[0], spots[1], f"quantise {study.dtype} to {study.to}", "change", "change"),)
    return replace(chart, points=(*ridges.values(), *kernels), lines=lines, arrows=arrows, marks=())


def _quantization_notes(study: Quantization) -> tuple[str, ...]:
    machine, ceilings = study.machine, study.ceilings
    notes = list(study.notes)
    if study.left_out:
        peaks = (f"{engine_title(name)} {rate(machine.peak(name, ceilings).value, name)}" for name in study.left_out)
        notes.insert(0, f"left out: {', '.join(peaks)}")
    before, after = study.before, study.after
    if before is not None and after is not None:
        ridges = machine.peak(after.engine, ceilings).value / machine.peak(before.engine, ceilings).value
        notes += [
            f"{study.kernel}: {study.dtype} to {study.to} multiplies intensity by {after.intensity / before.intensity:.3g} "
            f"and the ridge by {ridges:.3g}; its least time falls {before.floor / after.floor:.3g}-fold",
            "the kernel stands on its roofs (least time), not at its expected rate",
        ]
    return tuple(notes)


def locality(study: Locality) -> Chart:
    """One kernel with its data at every level: x is flops over the bytes that cross the level, y the rate the level allows."""
    roofs = Roofs(study.machine, [study.engine], [row.level for row in study.levels], study.ceilings)
    points = [_level_point(study.kernel, row) for row in study.levels]
    title = f"{study.kernel}: one kernel, {len(points)} places its data can be"
    ranges = roofs.ranges([(point.x, point.y) for point in points])
    label, notes = "arithmetic intensity at each level", _locality_notes(study, points)
    return roof_chart("locality", title, [roofs], ranges, (), points, (), notes, label)


def _level_point(kernel: str, row: LevelTraffic) -> Point:
    state = f"cold, from {level_title(row.level)}" if row.outermost else f"{level_title(row.level)} hit"
    details = {"level": row.level, "traffic": row.traffic, "flops": row.flops, "bytes": row.bytes}
    return Point(row.intensity, row.attainable, state, state, "value", f"{kernel}, {state}", details)


def _locality_notes(study: Locality, points: Sequence[Point]) -> tuple[str, ...]:
    levels = [row.level for row in study.levels]
    absent = [level.name for level in study.machine.levels if level.name not in levels]
    lowest = min(points, key=lambda point: point.y)
    binds = lowest.y < study.machine.peak(study.engine, study.ceilings).value * 0.999
    return (
        "x of a point: flops over the bytes that cross that level",
        *([f"no bandwidth known for {', '.join(absent)}: left out"] if absent else []),
        "traffic: " + ", ".join(f"{point.label} {point.details['traffic']}" for point in points),
        f"the lowest point binds: {lowest.label}" if binds else "every level can feed the compute roof",
    )
