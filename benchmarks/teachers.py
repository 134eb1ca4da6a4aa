"""Boosted trees that know the time of a call from its sizes and kernels: what others that know the sizes alone are taught by.

Needs LightGBM (`pip install lightgbm`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_LOG = 1.5  # of a time over that of its formula, beyond which it teaches no more
TREES_AT_ONCE = 50  # that the caches hold
LEARNING = {
    **{"feature_fraction": 0.4, "bagging_fraction": 0.7, "bagging_freq": 1, "max_cat_to_onehot": 4, "verbose": -1},
    **{"num_threads": 2, "seed": 1},
}

Vector = NDArray[np.float64]


@dataclass
class Teacher:
    """Models of several kinds, whose answer is the mean of theirs: those of absolute errors have the lower median error, those of
    squared errors the lower P90, and their mean is near the better of both."""

    models: list[Any]

    def predict(self, x: Vector) -> Vector:
        total = np.zeros(len(x))
        for model in self.models:
            for start in range(0, model.num_trees(), TREES_AT_ONCE):
                total += model.predict(x, start_iteration=start, num_iteration=TREES_AT_ONCE)
        return total / len(self.models)


def learnt(x: Vector, coded: Sequence[int], logs: Vector, kinds: Sequence[tuple[Mapping[str, Any], int]]) -> Teacher:
    """Models of times over those of formulas; `coded` columns are numbers of names. A kind has parameters, and rounds."""
    import lightgbm  # here, because the GPU's machine, where other scripts take constants from this one, need not have it

    limited, models = np.clip(logs, -MAX_LOG, MAX_LOG), []
    for parameters, rounds in kinds:
        data = lightgbm.Dataset(x, limited, categorical_feature=list(coded))
        models.append(lightgbm.train({**LEARNING, **parameters}, data, rounds))
    return Teacher(models)
