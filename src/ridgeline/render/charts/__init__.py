"""The charts by name: from machines, predictions and studies to neutral Chart values. Nothing is drawn or predicted here.

Every entry of `CHARTS` takes a Machine first and works on any of them: what a machine does not state is left out and
said in the notes, and only when nothing is left does it raise.
"""

from __future__ import annotations

from functools import partial

from ...core.errors import unknown
from ...prediction import compare, locality, precisions, studies, turning
from ..chart import Picture
from ..named import Named, by_name
from . import answers, changes, gaps, machines, roofline, sizes
from .plane import plane_chart

CHARTS: dict[str, Named[Picture]] = by_name(
    "chart",
    [
        Named("roofline", "The roofline of a machine with kernels on it: bandwidth roof, compute roof, ridge, both regions.", answers.roofline, studies.roofline),
        Named("ceilings", "All memory levels with a known bandwidth and several compute roofs on one chart.", roofline.ceilings_chart),
        Named("precisions", "One op in every number format of a machine, each format with its roof and ridge.", roofline.precisions, precisions.formats),
        Named("locality", "One kernel at every memory level: same rate, FLOP over the bytes that cross each level.", answers.levels, locality.locality),
        Named("blas", "BLAS levels 1 to 3 on one chart, GEMM at several sizes.", partial(plane_chart, "blas"), studies.blas_levels),
        Named("dl", "Deep-learning ops coloured by category; vector ops are judged against the vector roof, products against the matrix one.", roofline.dl, studies.deep_learning),
        Named("scale", "Arithmetic intensity as a line: ops and the ridges of the machine.", sizes.scale, turning.intensity_scale),
        Named("peaks", "Bars of the peak by precision on a log axis, with the factor over the fp64 and fp32 vector peaks.", machines.peaks),
        Named("pyramid", "The memory hierarchy from the core outwards: capacity of one and of all, bandwidth, latency.", machines.pyramid),
        Named("efficiency", "Expected rate of a square GEMM against its size, with the peak line; sizes shorter than a launch are marked as overhead.", sizes.efficiency, turning.gemm_sizes),
        Named("batch", "Intensity of a linear layer against batch, with the ridge, both regions, the saturation line and the critical batch.", sizes.batch, turning.batch_sweep),
        Named("compare", "The roofs of two or more machines on one chart, with the ridge of each; works stand on the first machine's and the others' roofs.", machines.compare, compare.roofs),
        Named("phases", "Prefill and decode of one transformer layer side by side: the same ops at `tokens` rows and at one.", roofline.phases, studies.phases),
        Named("trend", "Generations: peak, bandwidth and ridge relative to the first, by year of release.", machines.trend, compare.trend),
        Named("gaps", "Observed points with their vertical gap to the roof as an arrow, and algorithmic intensity as a target to the right.", gaps.gaps),
        Named("bandwidth", "Theoretical against measured bandwidth; without a measurement of one's own, the public one the machine file carries.", machines.bandwidth),
        Named("losses", "Loss cascades of a memory-bound and a compute-bound kernel: `(losses, measured)` each, in B/s and flop/s.", machines.losses),
        Named("changes", "What changes would bring: numbered arrows from the baseline, each priced, the roofs of every machine on the way.", changes.changes, studies.changes),
        Named("versions", "Measured versions of one kernel as a path, the gain of every step at its arrow.", changes.versions),
    ],
)  # fmt: skip


def find(name: str) -> Named[Picture]:
    if name not in CHARTS:
        raise unknown("chart", name, CHARTS, "See `ridgeline chart`.")
    return CHARTS[name]
