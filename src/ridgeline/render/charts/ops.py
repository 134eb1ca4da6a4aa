"""The charts of well-known ops: BLAS, deep learning and its phases, the intensity line, rate against size, intensity against batch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.errors import MissingFigure
from ...core.machine import MAIN, Machine
from ...core.roofline import batch_intensity, critical_batch, saturation
from ...core.units import show
from ...core.work import Work
from ...prediction.compare import default_dtype, layer_ridge
from ...prediction.predict import predict
from ...programs import ops
from ..chart import LOG, Axis, Chart, Line, Mark, Panel, Point, Region
from ..draw.labels import amount, shorten
from .plane import (
    INTENSITY,
    PER_BYTE,
    PERFORMANCE,
    Case,
    axis_spans,
    bound_regions,
    cases,
    engine_for,
    engine_title,
    kinds_used,
    known_peak,
    level_title,
    name_of,
    plane_chart,
    power_span,
    predict_each,
    rate,
    rate_unit,
    roofs_used,
    size_text,
    title_of,
)

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
    made, notes = predict_each(machine, works, ceilings)
    found = cases(made, BLAS_GROUPS)
    found = [
        replace(
            case,
            name=f"gemm {case.name.split()[1].rstrip('³')}" if case.name.startswith("gemm") else case.name.split()[0],
        )
        for case in found
    ]
    engines, levels = roofs_used(machine, found, name, ceilings)
    chart = plane_chart(
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
            f"gemm N³ reaches the ridge at N = {crossing}; level 1 has n = {size_text(n)}, level 2 {side} x {side}",
            *chart.notes,
        ),
    )


def _with_matrix(machine: Machine, wanted: str, ceilings: str | None) -> str:
    """The wanted format where matrix products can run in it, else the machine's usual one."""
    try:
        engine_for(machine, wanted, ceilings)
    except MissingFigure:
        return default_dtype(machine)
    return wanted


def _crossing(machine: Machine, dtype: str, ceilings: str | None) -> int:
    """The smallest N at which an N x N x N product reaches the ridge; its intensity grows in proportion to N."""
    ridge = machine.ridge(engine_for(machine, dtype, ceilings), MAIN, ceilings)
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
        made, more = predict_each(machine, [work], ceilings)
        notes += more
        category = ops.OPS[work.name].category if work.name in ops.OPS else "other"
        found += [replace(case, name=label, group=category) for case in cases(made)]
    engines, levels = roofs_used(machine, found, name, ceilings)
    if len(engines) > 1:
        notes.append(
            "elementwise ops and norms run on the vector units and are judged against their roof, the others against the matrix roof"
        )
    return plane_chart(
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
        made = {label: predict_each(machine, [work], ceilings) for label, work in works.items()}
        notes += [note for _, more in made.values() for note in more]
        parts[phase] = [
            replace(case, name=label, group=label) for label, (done, _) in made.items() for case in cases(done)
        ]
    every = [case for found in parts.values() for case in found]
    engines, levels = roofs_used(machine, every, name, ceilings)
    spans = axis_spans(machine, engines, levels, every, ceilings)
    charts = tuple(
        plane_chart(
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
    engine = engine_for(machine, name, ceilings)
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
    span = power_span([point.x for point in (*points, *ridges)], 2.0, 4.0)
    first = ridges[0].x
    return Chart(
        "scale", f"Arithmetic intensity on {machine.name}", Axis(INTENSITY, PER_BYTE, LOG, span), Axis("", "", "linear", (0.0, 1.0), shown=False),
        f"{title_of(machine)}, ridge of {name} against {level_title(machine.main.name)}, {kinds_used(machine, engines, [MAIN], ceilings)}",
        (Line(((span[0], 0.5), (span[1], 0.5)), "guide", "", "", {}),), (*points, *ridges),
        regions=bound_regions([first], span), marks=(Mark("x", first, f"ridge of {engine_title(engine)}: {amount(first, PER_BYTE)}", "ridge"),), notes=tuple(notes),
    )  # fmt: skip


def efficiency(
    machine: Machine,
    dtype: str | None = None,
    sizes: Sequence[int] = (128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    ceilings: str | None = None,
) -> Chart:
    """Expected rate of a square GEMM against its size, with the peak line; sizes shorter than a launch are marked as overhead."""
    name = dtype or default_dtype(machine)
    engine = engine_for(machine, name, ceilings)
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
        "efficiency", f"Square GEMM in {name} on {machine.name}", Axis("N of an N x N x N product", "", LOG, power_span(sizes, 2.0, 1.3)),
        Axis(PERFORMANCE, rate_unit([engine]), "linear", (0.0, peak * 1.12)), f"{title_of(machine)}, {kinds_used(machine, [engine], [MAIN], ceilings)}",
        (
            Line(tuple((point.x, point.y) for point in points), "series", "", "gemm", {}),
            Line(((power_span(sizes, 2.0, 1.3)[0], peak), (power_span(sizes, 2.0, 1.3)[1], peak)), "peak", f"peak {rate(peak, engine)}", "", {"engine": engine}),
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
    engine = engine_for(machine, name, ceilings)
    ridge = layer_ridge(machine, in_features, out_features, name, weights, ceilings)
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
    low, high = power_span([float(curve[0]), top, ridge, float(curve[-1])], 2.0, 1.5)
    span = (2.0**-1, most * 2.0)
    kind = kinds_used(machine, [engine], [MAIN], ceilings)
    return Chart(
        "batch", f"Linear {in_features} to {out_features} in {name}{f' with {weights} weights' if weights else ''}: intensity against batch",
        Axis("batch", "", LOG, span), Axis(INTENSITY, PER_BYTE, LOG, (low, high)), f"{title_of(machine)}, {kind}",
        (Line(tuple(zip(sweep.tolist(), curve.tolist(), strict=True)), "series", "", "linear layer", {}),), tuple(points),
        regions=(Region("memory-bound", None, (low, min(ridge, high)), "memory"), Region("compute-bound", None, (min(ridge, high), high), "compute")),
        marks=(Mark("y", ridge, f"ridge: {amount(ridge, PER_BYTE)}", "ridge"), Mark("y", top, f"saturation: {amount(top, PER_BYTE)}", "saturation")), notes=tuple(notes),
    )  # fmt: skip
