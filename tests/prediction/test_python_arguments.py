"""What Python users pass without thinking: classes of numbers, arguments in the wrong order, predictions to other processes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import ridgeline as rl

GEMM = rl.ops.gemm(m=8, n=8, k=8)


def test_a_prediction_can_be_sent_to_another_process() -> None:
    prediction = rl.predict(GEMM, "h200-sxm")
    assert pickle.loads(pickle.dumps(prediction)).time == prediction.time


@pytest.mark.parametrize(("kind", "name"), [(np.float32, "fp32"), (np.dtype("float16"), "fp16"), (float, "fp64")])
def test_classes_of_numbers_are_formats(kind: Any, name: str) -> None:
    assert rl.ops.gemm(m=8, n=8, k=8, dtype=kind).dtype == name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((GEMM, None), "a machine is given by its name, such as 'h100-sxm', or its file; got NoneType"),
        (("h100-sxm", GEMM), "and then the machine; got str for the work"),
    ],
)
def test_a_wrong_argument_is_named(arguments: tuple[Any, Any], says: str) -> None:
    with pytest.raises(rl.RidgelineError, match=says):
        rl.predict(*arguments)


def test_reconcile_names_what_it_takes() -> None:
    with pytest.raises(rl.RidgelineError, match="takes a prediction and its observations; got NoneType"):
        rl.reconcile(rl.predict(GEMM, "h200-sxm"), None)  # type: ignore[arg-type]
