"""The charts by name: from machines, predictions and studies to neutral Chart values. Nothing is drawn or predicted here.

Every entry of `CHARTS` takes a Machine first and works on any of them: what a machine does not state is left out and
said in the notes, and only when nothing is left does it raise.
"""

from __future__ import annotations

from functools import partial

from ...core.errors import unknown
from ...prediction import compare, locality, precisions, studies, turning
from ...prediction import extended as extended_rooflines
from ..chart import Picture
from ..named import Named, by_name
from . import answers, changes, extended, gaps, machines, roofline, sizes
from .plane import plane_chart

CHARTS: dict[str, Named[Picture]] = by_name(
    "chart",
    [
        Named("roofline", "The roofline of a machine with kernels on it: memory roof, compute roof, ridge point.", answers.roofline, studies.roofline),
        Named("ceilings", "All memory levels with a known bandwidth and several compute roofs on one chart.", roofline.ceilings_chart),
        Named("precisions", "One op in every number format of a machine, each format with its roof and ridge.", roofline.precisions, precisions.formats),
        Named("locality", "One kernel at every memory level: same rate, FLOP over the bytes that cross each level.", answers.levels, locality.locality),
        Named("blas", "BLAS levels 1 to 3 on one chart, GEMM at several sizes.", partial(plane_chart, "blas"), studies.blas_levels),
        Named("dl", "Deep-learning ops by category: vector ops under the vector roof, GEMMs under the matrix roof.", roofline.dl, studies.deep_learning),
        Named("scale", "Arithmetic intensity as a line: ops and the ridges of the machine.", sizes.scale, turning.intensity_scale),
        Named("peaks", "Bars of the peak by precision, with the factor over the fp64 and fp32 vector peaks.", machines.peaks),
        Named("pyramid", "The memory hierarchy from the core outwards: capacity, bandwidth, latency.", machines.pyramid),
        Named("efficiency", "Expected rate of a square GEMM against its size, under the peak.", sizes.efficiency, turning.gemm_sizes),
        Named("batch", "AI of a linear layer against batch, with the ridge and the critical batch.", sizes.batch, turning.batch_sweep),
        Named("compare", "The rooflines of two or more machines, with the ridge of each.", machines.compare, compare.roofs),
        Named("phases", "Prefill and decode of one transformer layer side by side.", roofline.phases, studies.phases),
        Named("trend", "Generations: peak, bandwidth and ridge relative to the first, by year of release.", machines.trend, compare.trend),
        Named("gaps", "Measured kernels with the gap to their roofline as an arrow, and their algorithmic AI.", gaps.gaps),
        Named("bandwidth", "Stated vs measured bandwidth.", machines.bandwidth),
        Named("losses", "From the peak through named losses to the measured rate, for memory and compute.", machines.losses),
        Named("energy", "Energy roofline: FLOP/J against AI, with the ceiling and the energy balance point.", extended.energy, extended_rooflines.energy),
        Named("communication", "Communication roofline: attainable rate against FLOP per byte sent, a ridge for each link.", extended.communication, extended_rooflines.communication),
        Named("anatomy", "How to read a roofline: both roofs, the ridge point, and three example kernels.", extended.anatomy),
        Named("changes", "What a chain of changes brings: numbered arrows from the baseline, each priced.", changes.changes, studies.changes),
        Named("versions", "Measured versions of one kernel as a path, the gain of each step at its arrow.", changes.versions),
    ],
)  # fmt: skip


def find(name: str) -> Named[Picture]:
    if name not in CHARTS:
        raise unknown("chart", name, CHARTS, "See `ridgeline chart`.")
    return CHARTS[name]
