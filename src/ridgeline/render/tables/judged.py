"""An evaluation as a table and as a picture of predicted against measured times."""

from __future__ import annotations

from ...prediction.score import Evaluation
from ..chart import LOG, Axis, Chart, Line, Point
from ..table import Column, Table

TITLES = {"ridgeline": "ridgeline", "roofline": "stated roofline", "flat": "0.78 of it", "fitted": "three numbers"}


def table(found: Evaluation) -> Table:
    rows = []
    baselines = found.methods[1:]
    for one in (*found.families, found.pooled):
        own = one.errors()
        row = {
            "family": one.family,
            "cases": len(one.measured),
            "signed": own.signed,
            "inside": float(one.inside.mean()),
        }
        row |= {"median": own.median, "mean": own.mean, "p90": own.p90}
        for name in baselines:
            row |= {f"{name}_median": one.errors(name).median, f"{name}_p90": one.errors(name).p90}
        rows.append(row)

    def percent(name: str, title: str = "") -> Column:
        return Column(name, title, percent=True, digits=3)

    columns = [
        Column("family"),
        Column("cases"),
        percent("median"),
        percent("mean"),
        percent("p90", "P90"),
        percent("signed", "signed median"),
        percent("inside", "in 80 % interval"),
    ]
    for name in baselines:
        columns += [
            percent(f"{name}_median", f"{TITLES[name]}: median"),
            percent(f"{name}_p90", "P90"),
        ]
    errors = "errors are |predicted - measured| / measured"
    fitted = "three numbers are fitted on the half that is not judged"
    without = "three numbers are left out: fitting them needs SciPy, pip install 'ridgeline[fit]'"
    notes = [f"{errors}; {fitted if 'fitted' in baselines else without}"]
    if found.failed:
        notes.append(f"{found.failed} cases could not be predicted or carry no time")
    return Table(f"expected against measured times on {found.machine}", tuple(columns), rows, tuple(notes))


GROUPS = {"gemv": "rows", "reduce": "stream", "transpose": "stream", "gather": "stream"}


def _group(family: str) -> str:
    """Families that a picture can tell apart by colour: products as one, what streams as one."""
    first = family.partition(" ")[0]
    return GROUPS.get(first, first)


def chart(found: Evaluation) -> Chart:
    """Predicted over measured time, a group per family, with the diagonal and the lines a quarter off it."""
    every = [
        value for one in found.families for values in (one.measured, one.predicted["ridgeline"]) for value in values
    ]
    low, high = min(every) / 1.5, max(every) * 1.5
    points = tuple(
        Point(float(measured), float(predicted), group=_group(one.family), role="value")
        for one in found.families
        for measured, predicted in zip(one.measured, one.predicted["ridgeline"], strict=True)
    )
    ends = ((low, low), (high, high))
    lines = (
        Line(ends, "guide", "predicted = measured"),
        *(
            Line(tuple((x, x * by) for x, _ in ends), "target", label)
            for by, label in ((1.25, "+25 %"), (0.8, "-20 %"))
        ),
    )
    own = found.pooled.errors()
    return Chart(
        "evaluation",
        title=f"Expected against measured: {found.machine}",
        x=Axis("measured", "s", LOG, (low, high)),
        y=Axis("expected", "s", LOG, (low, high)),
        lines=lines,
        points=points,
        notes=(
            f"{len(points)} cases: median error {own.median:.1%}, P90 {own.p90:.1%}, signed median {own.signed:+.1%}",
        ),
    )
