"""The chart of an evaluation: expected against measured times."""

from __future__ import annotations

from ...prediction.score import Evaluation
from ..chart import LOG, Axis, Chart, Line, Point

# Families that a picture can tell apart by colour: products as one, what streams as one.
GROUPS = {"gemv": "rows", "reduce": "stream", "transpose": "stream", "gather": "stream"}
BANDS = {"+25 %": 1.25, "-20 %": 0.8}


def score_chart(evaluation: Evaluation) -> Chart:
    """Predicted over measured time, a group per family, with the diagonal and the lines a quarter off it."""
    points = []
    for family in evaluation.families:
        kind = family.family.partition(" ")[0]
        pairs = zip(family.measured, family.predicted["ridgeline"], strict=True)
        points += [Point(float(x), float(y), group=GROUPS.get(kind, kind), role="value") for x, y in pairs]
    times = [time for point in points for time in (point.x, point.y)]
    low, high = min(times) / 1.5, max(times) * 1.5
    lines = [Line(((low, low), (high, high)), "guide", "predicted = measured")]
    lines += [Line(((low, low * by), (high, high * by)), "target", label) for label, by in BANDS.items()]
    errors = evaluation.pooled.errors()
    note = f"{len(points)} cases: median error {errors.median:.1%}, P90 {errors.p90:.1%}, signed median {errors.signed:+.1%}"
    return Chart(
        "evaluation", f"Expected against measured: {evaluation.machine}", Axis("measured", "s", LOG, (low, high)),
        Axis("expected", "s", LOG, (low, high)), lines=tuple(lines), points=tuple(points), notes=(note,),
    )  # fmt: skip
