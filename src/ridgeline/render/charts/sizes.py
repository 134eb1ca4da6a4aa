"""Charts against a size: the intensity line, GEMM rate against N, intensity of a layer against its batch."""

from __future__ import annotations

import math

import numpy as np

from ...core.documents import to_document
from ...core.machine import MAIN
from ...core.units import show
from ...prediction.turning import BatchSweep, IntensityScale, SizeSweep
from ..chart import LOG, Axis, Chart, Line, Mark, Point, Region
from ..draw.labels import amount, shorten
from .plane import Roofs, bound_regions, power_span
from .wording import INTENSITY, PER_BYTE, PERFORMANCE, bound_title, engine_title, level_title, rate, rate_unit, title_of

CURVE_POINTS = 97


def scale(study: IntensityScale) -> Chart:
    """Arithmetic intensity as a line: ops and the ridges of the machine."""
    machine = study.machine
    points = [
        Point(row.value, 0.5, f"{shorten(row.name, 26)} {show(row.value, '', 3)}", "op", "value", row.name, {"dtype": row.dtype})
        for row in study.intensities
    ]  # fmt: skip
    ridges = [
        Point(value, 0.5, f"ridge {engine_title(engine)} {show(value, '', 3)}", "", "ridge", f"ridge {engine}")
        for engine, value in study.ridges.items()
    ]
    across = power_span([point.x for point in (*points, *ridges)], 2.0, 4.0)
    ridge = next(iter(study.ridges.values()))
    kinds = Roofs(machine, list(study.ridges), [MAIN], study.ceilings).kinds
    return Chart(
        "scale", f"Arithmetic intensity on {machine.name}",
        Axis(INTENSITY, PER_BYTE, LOG, across), Axis("", "", "linear", (0.0, 1.0), shown=False),
        f"{title_of(machine)}, ridge of {study.dtype} against {level_title(machine.main.name)}, {kinds}",
        (Line(((across[0], 0.5), (across[1], 0.5)), "guide", "", "", {}),), (*points, *ridges),
        regions=bound_regions(list(study.ridges.values()), across),  # in between it depends on the engine
        marks=(Mark("x", ridge, "", "ridge"),), notes=study.notes,
    )  # fmt: skip


def efficiency(study: SizeSweep) -> Chart:
    """Expected rate of a square GEMM against its size, with the peak line; sizes shorter than a launch are marked as overhead."""
    machine, engine = study.machine, study.engine
    peak = machine.peak(engine, study.ceilings).value
    points = []
    for size, kernel in zip(study.sizes, study.kernels, strict=True):
        label = f"{kernel.rate / peak * 100:.2g} %" if kernel.rate < 0.995 * peak else "100 %"
        group, role = bound_title(kernel.bound), "overhead" if kernel.bound == "overhead" else "expected"
        details = {"share_of_peak": kernel.rate / peak, **to_document(kernel)}
        points.append(Point(size, kernel.rate, label, group, role, f"gemm {size}³", details))
    notes = ["percent of peak at the expected time; nothing was run"]
    if any(point.role == "overhead" for point in points):
        notes.append("squares: overhead-bound, shorter than a kernel launch")
    across = power_span(study.sizes, 2.0, 1.3)
    lines = (
        Line(tuple((point.x, point.y) for point in points), "series", "", "", {}),
        Line(
            ((across[0], peak), (across[1], peak)),
            "peak",
            f"peak {rate(peak, engine)}",
            engine.partition(".")[0],
            {"engine": engine},
        ),
    )
    return Chart(
        "efficiency", f"Square GEMM in {study.dtype} on {machine.name}", Axis("N of an N x N x N GEMM", "", LOG, across),
        Axis(PERFORMANCE, rate_unit([engine]), "linear", (0.0, peak * 1.12)),
        Roofs(machine, [engine], [MAIN], study.ceilings).subtitle, lines, tuple(points), notes=tuple(notes),
    )  # fmt: skip


def batch(study: BatchSweep) -> Chart:
    """Intensity of a linear layer against batch, with the ridge, both regions, the saturation line and the critical batch."""
    machine, layer = study.machine, study.critical
    ridge, limit = layer.ridge, layer.saturation
    sizes = np.geomspace(1, study.max_batch, CURVE_POINTS)
    curve = np.asarray(study.intensity(sizes))
    points = []
    for power in range(int(math.log(study.max_batch, 4)) + 1):
        size, value = float(4**power), float(study.intensity(float(4**power)))
        points.append(Point(size, value, show(value, "", 3), "", "value", f"B = {size:g}"))
    notes = [f"AI limit for large batch: {show(limit, '', 4)} {PER_BYTE}"]
    if layer.never:
        notes.append(f"never reaches the ridge: {show(limit, '', 4)} is below {show(ridge, '', 4)}")
    else:
        label, at = f"critical batch {layer.batch:.0f}", float(study.intensity(layer.batch))
        points.append(Point(layer.batch, at, label, "", "ridge", "critical batch", {"batch": layer.batch}))
    low, high = power_span([float(curve[0]), limit, ridge, float(curve[-1])], 2.0, 1.5)
    stored = f" with {study.weights} weights" if study.weights else ""
    regions = (
        Region("memory-bound", None, (low, min(ridge, high)), "memory"),
        Region("compute-bound", None, (min(ridge, high), high), "compute"),
    )
    marks = (
        Mark("y", ridge, f"ridge {amount(ridge, PER_BYTE)}", "ridge"),
        Mark("y", limit, f"AI limit for large batch: {amount(limit, PER_BYTE)}", "saturation"),
    )
    return Chart(
        "batch", f"Linear {layer.in_features:.0f} to {layer.out_features:.0f} in {layer.dtype}{stored}: intensity against batch",
        Axis("batch", "", LOG, (2.0**-1, study.max_batch * 2.0)), Axis(INTENSITY, PER_BYTE, LOG, (low, high)),
        Roofs(machine, [study.engine], [MAIN], study.ceilings).subtitle,
        (Line(tuple(zip(sizes.tolist(), curve.tolist(), strict=True)), "series", "", "linear layer", {}),), tuple(points),
        regions=regions, marks=marks, notes=tuple(notes),
    )  # fmt: skip
