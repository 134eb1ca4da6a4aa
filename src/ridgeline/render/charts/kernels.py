"""Charts of well-known kernels: BLAS levels, deep-learning ops, prefill and decode."""

from __future__ import annotations

from dataclasses import replace

from ...prediction.kernel_sets import KernelSet
from ...prediction.studies import Phases
from ..chart import Chart, Panel
from .plane import axis_ranges, plane_chart, roofs_used
from .wording import kinds_used, title_of


def blas(study: KernelSet) -> Chart:
    """BLAS levels 1 to 3, coloured by level."""
    return plane_chart("blas", study)


def dl(study: KernelSet) -> Chart:
    """Deep-learning ops coloured by category."""
    roofs = roofs_used(study)
    note = "elementwise ops and norms run on the vector units and are judged against their roof, the others against the matrix roof"
    return plane_chart("dl", study, roofs, notes=(note,) if len(roofs[0]) > 1 else ())


def phases(study: Phases) -> Panel:
    """Prefill and decode side by side under the same roofs and axes."""
    both = (study.prefill, study.decode)
    machine, ceilings = study.prefill.machine, study.prefill.ceilings
    every = replace(study.prefill, entries=(*study.prefill.entries, *study.decode.entries))
    engines, levels = roofs_used(every)
    spots = [(kernel.intensity, kernel.rate) for kernel in every.kernels]
    ranges = axis_ranges(machine, engines, levels, spots, ceilings)
    charts = [plane_chart("phases", replace(phase, notes=()), (engines, levels), ranges) for phase in both]
    notes = [note for phase in both for note in phase.notes] + [note for chart in charts for note in chart.notes]
    return Panel(
        f"Prefill and decode in {study.dtype} on {machine.name}",
        tuple(replace(chart, notes=(), subtitle="") for chart in charts),
        f"{title_of(machine)}, one layer of width {study.hidden}, {kinds_used(machine, engines, levels, ceilings)}",
        tuple(dict.fromkeys(notes)),
        "phases",
    )
