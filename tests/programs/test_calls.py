"""The work of a call, from its name and the shapes of its arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeline.programs.calls import work_of
from ridgeline.programs.calls import work_of_call as called


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::mm", [(3, 4), (4, 5)], ("gemm", {"m": 3, "n": 5, "k": 4})),
        ("matmul", [(2, 3, 4), (4, 5)], ("gemm", {"m": 6, "n": 5, "k": 4})),
        ("matmul", [(2, 3, 4), (2, 4, 5)], ("bmm", {"batch": 2, "m": 3, "n": 5, "k": 4})),
        ("aten::mv", [(3, 4), (4,)], ("gemv", {"m": 3, "n": 4})),
        ("aten::addmm", [(5,), (3, 4), (4, 5)], ("gemm", {"m": 3, "n": 5, "k": 4})),
        ("aten::linear", [(3, 4), (5, 4), (5,)], ("linear", {"batch": 3, "in_features": 4, "out_features": 5, "bias": 1})),
        ("aten::gelu", [(3, 4)], ("gelu", {"n": 12})),
        ("add", [(3, 4), (3, 4)], ("add", {"n": 12})),
        ("aten::copy_", [(3, 4), (3, 4)], ("copy", {"n": 12})),
        ("aten::_softmax", [(2, 3, 4)], ("softmax", {"rows": 6, "cols": 4})),
        ("aten::native_layer_norm", [(3, 4), (4,), (4,)], ("layernorm", {"rows": 3, "cols": 4})),
        ("add", [(3, 4), (4,)], None),  # broadcast: who reads how much is not told
        ("matmul", [(3, 4), (5, 4)], None),
        ("matmul", [(2, 3, 4), (1, 4, 5)], None),
        ("addmm", [(3, 5), (3, 4), (4, 5)], None),
        ("matmul", [(0, 4), (4, 5)], None),
        ("linear", [(3, 4)], None),
        ("svd", [(3, 4)], None),
        ("gelu", [], None),
    ],
)  # fmt: skip
def test_a_call_is_told_by_its_name_and_shapes(name: str, shapes: list[Any], expected: Any) -> None:
    found = work_of(name, shapes, ["float32"] * len(shapes))
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.name == expected[0]
    assert {key: found.shape[key] for key in expected[1]} == expected[1]
    assert found.dtype == "fp32"


def test_arrays_and_layers_tell_their_work() -> None:
    a = np.ones((3, 4))
    product = called(np.matmul, (a, np.ones((4, 5))))
    assert product is not None
    assert (product.flops, product.dtype) == (2 * 3 * 4 * 5, "fp64")

    class Linear:
        weight = np.ones((5, 4))

    layer = called(Linear(), (a,))
    assert layer is not None
    assert layer.name == "linear"
    assert called(np.matmul, (a.astype(complex), a.T.astype(complex))) is None  # a format without a row
    assert called(print, ("text",)) is None
