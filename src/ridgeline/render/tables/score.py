"""The table of an evaluation: errors of the expected times by family, beside those of three baselines."""

from __future__ import annotations

from ...prediction.score import Evaluation
from ..table import Column, Table

TITLES = {"ridgeline": "ridgeline", "roofline": "stated roofline", "flat": "0.78 of it", "fitted": "three numbers"}


def score_table(evaluation: Evaluation) -> Table:
    rows = []
    baselines = evaluation.methods[1:]
    for family in (*evaluation.families, evaluation.pooled):
        errors = family.errors()
        row = {"family": family.family, "cases": len(family.measured), "inside": float(family.inside.mean())}
        row |= {"median": errors.median, "mean": errors.mean, "p90": errors.p90, "signed": errors.signed}
        for name in baselines:
            row |= {f"{name}_median": family.errors(name).median, f"{name}_p90": family.errors(name).p90}
        rows.append(row)
    titles = {"median": "", "mean": "", "p90": "P90", "signed": "signed median", "inside": "in 80 % interval"}
    for name in baselines:
        titles |= {f"{name}_median": f"{TITLES[name]}: median", f"{name}_p90": "P90"}
    percent = (Column(key, title, percent=True, digits=3) for key, title in titles.items())
    errors_note = "errors are |predicted - measured| / measured"
    fitted = "three numbers are fitted on the half that is not judged"
    without = "three numbers are left out: fitting them needs SciPy, pip install 'ridgeline[fit]'"
    notes = [f"{errors_note}; {fitted if 'fitted' in baselines else without}"]
    if evaluation.failed:
        notes.append(f"{evaluation.failed} cases could not be predicted or carry no time")
    title = f"expected against measured times on {evaluation.machine}"
    return Table(title, (Column("family"), Column("cases"), *percent), rows, tuple(notes))
