"""The roofs of one machine: sets of kernels under them, all levels and engines, all formats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.machine import ANY, MAIN, Machine
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for, known_levels, known_peak
from ...prediction.kernel_sets import Entry, KernelSet, PredictedKernel
from ...prediction.precisions import FormatSet
from ...prediction.predict import Prediction
from ...prediction.studies import Phases
from ..chart import Chart, Line, Panel, Point
from .plane import Roofs, plane_chart, roof_chart, roofs_used
from .wording import title_of

OTHER_ENGINES = ("vector.fp64", "tensor.fp8", "tensor.int8", "vector.bf16", ANY)


def dl(study: KernelSet) -> Chart:
    """Deep-learning ops coloured by category."""
    roofs = roofs_used(study)
    note = "elementwise ops and norms run on the vector units, GEMM, convolution and attention on the matrix units"
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
            f"{machine.name} has no memory bandwidth, so there is no sloped roof to draw; give --bandwidth"
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


def precisions(study: FormatSet) -> Chart:
    """One bandwidth line and a flat roof with its ridge for every number format; one op in each of them."""
    machine, ceilings = study.machine, study.ceilings
    roofs = Roofs(machine, study.engines, [machine.bandwidth(MAIN, ceilings).name], ceilings)
    points = [_format_point(dtype, kernel) for dtype, kernel in study.kernels]
    chart = roof_chart("precisions", study.title, [roofs], roofs.ranges([(dot.x, dot.y) for dot in points]), (), ())
    ridges = {dot.y: replace(dot, label=show(dot.x, "", 3)) for dot in chart.points}
    lines = [_format_roof(line, ridges[line.points[0][1]]) if line.role == "peak" else line for line in chart.lines]
    path = tuple((dot.x, dot.y) for dot in points)
    joined = [Line(path, "guide", "", "")] if len(path) > 1 else []
    notes = (*study.notes, "dots: expected rate in each format; numbers at the corners: ridge points (FLOP/B)")
    return replace(
        chart, points=(*ridges.values(), *points), lines=(*lines, *joined), notes=notes, marks=(), regions=()
    )


def _format_roof(line: Line, ridge: Point) -> Line:
    dtype = line.details["engine"].split()[0].partition(".")[2]
    return replace(line, label=f"{line.label}, ridge {ridge.label}", group=dtype)


def _format_point(dtype: str, kernel: PredictedKernel) -> Point:
    label = f"{dtype.removesuffix('_e4m3')} {show(kernel.time, 's', 3)}"
    group = kernel.engine.partition(".")[2]
    return Point(kernel.intensity, kernel.rate, label, group, "value", f"{kernel.name} in {dtype}", to_document(kernel))
