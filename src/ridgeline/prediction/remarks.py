"""What is said of one case of an op beyond its time: an interval below the floor, sizes nearby at which the time jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import RidgelineError
from ..core.units import percent, show
from ..core.work import Work
from ..programs.ops import OPS, Op
from .coefficients import in_cache

if TYPE_CHECKING:
    from .predict import Prediction

MIN_SHARE = 1e-4  # of the floor, by which an interval begins below it


def remarks(prediction: Prediction) -> list[str]:
    """Of one case of an op: that its interval reaches below the floor, and sizes nearby at which the time jumps."""
    from .cliffs import cliffs  # which predicts the sizes nearby

    asked = asked_of(prediction)
    if asked is None:
        return []
    made = cliffs(*asked, prediction, prediction.options)
    low, floor = (float(np.ravel(value)[0]) for value in (prediction.low, prediction.floor))
    if low < floor * (1 - MIN_SHARE):
        known = f"the measured ceilings are known to +/-{percent(prediction.bounds[0].tolerance)}"
        made.insert(0, f"the interval begins below the floor of {show(floor, 's')}: {known}")
    return made


def asked_of(prediction: Prediction) -> tuple[Op, dict[str, Any]] | None:
    """The op and the arguments of a prediction of one case; None of a program, a sweep and work that is no op's as it was made."""
    if len(prediction.steps) != 1 or prediction.steps[0].backend or np.any(prediction.steps[0].count != 1):
        return None
    if prediction.count != 1:
        return None
    work = prediction.work
    op = OPS.get(work.name)
    if op is None:
        return None
    values = {**work.shape, **({"dtype": work.dtype} if "dtype" in op.params else {})}
    values = {name: value.item() if isinstance(value, np.ndarray) else value for name, value in values.items()}
    return (op, values) if _is(op, values, work) else None


def _is(op: Op, values: dict[str, Any], work: Work) -> bool:
    """Whether the arguments make this work: work that was repeated, batched or fused has the name of its op too."""
    try:
        made = op(**values)
        return bool(made == work or in_cache(made) == work)
    except (RidgelineError, ValueError):  # arrays of several elements have no truth
        return False
