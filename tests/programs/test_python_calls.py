"""The work of a call of a Python function, from its name and its arrays, or from the operators it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeline.core.timeline import Tensor
from ridgeline.programs.aten.python_calls import has_work, work_of, work_of_call


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
        ("add", [(3, 4), (4,)], ("add", {"n": 12})),
        ("aten::copy_", [(3, 4), (3, 4)], ("copy", {"n": 12})),
        ("aten::_softmax", [(2, 3, 4)], ("softmax", {"rows": 6, "cols": 4})),
        ("aten::native_layer_norm", [(3, 4), (4,), (4,)], ("layernorm", {"rows": 3, "cols": 4})),
        ("matmul", [(2, 3, 4), (1, 4, 5)], ("bmm", {"batch": 2})),
        ("matmul", [(3, 4), (5, 4)], None),
        ("matmul", [(0, 4), (4, 5)], None),
        ("linear", [(3, 4)], None),
        ("svd", [(3, 4)], None),
        ("gelu", [], None),
    ],
)  # fmt: skip
def test_a_name_and_shapes_give_the_work(name: str, shapes: list[Any], expected: Any) -> None:
    work = work_of(name, [Tensor(shape, "float32") for shape in shapes])
    if expected is None:
        assert work is None
        return
    assert work is not None
    assert work.name == expected[0]
    assert {key: work.shape[key] for key in expected[1]} == expected[1]
    assert work.dtype == "fp32"


def test_arrays_and_layers_have_their_work() -> None:
    a = np.ones((3, 4))
    product = work_of_call(np.matmul, (a, np.ones((4, 5))))
    assert product is not None
    assert (product.flops, product.dtype) == (2 * 3 * 4 * 5, "fp64")
    assert work_of_call(np.dot, (a, np.ones((4, 5)))) == product
    scaled = work_of_call(np.multiply, (a, a))
    assert scaled is not None
    assert (scaled.name, scaled.bytes) == ("mul", 3 * 8 * 12)

    class Linear:
        weight = np.ones((5, 4))

    layer = work_of_call(Linear(), (a,))
    assert layer is not None
    assert layer.name == "linear"
    assert (
        work_of_call(np.matmul, (a.astype(complex), a.T.astype(complex))) is None
    )  # products that no peak is stated for
    assert work_of_call(np.sum, (a, 0)) is None  # an axis, which a name and shapes do not say
    assert work_of_call(print, ("text",)) is None


def test_views_and_reads_by_the_host_do_no_work() -> None:
    assert has_work("aten::mm")
    assert has_work("aten::clone")
    assert not has_work("aten::view")
    assert not has_work("aten::item")
    assert not has_work("mylib::op")


@pytest.mark.needs_torch
def test_a_function_of_torch_is_recorded() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(8, 4)
    work = work_of_call(layer, (torch.ones(3, 8),))
    assert work is not None
    assert work.flops == 2 * 3 * 8 * 4
    both = work_of_call(lambda x: torch.relu(layer(x)), (torch.ones(3, 8),))
    assert both is not None
    assert both.flops == 2 * 3 * 8 * 4 + 12
    assert len(both.steps) == 2
    assert work_of_call(lambda x: torch.linalg.svd(x), (torch.ones(3, 3),)) is None
    softmax = work_of_call(torch.softmax, (torch.ones(6, 8), 0))
    assert softmax is not None
    assert (softmax.shape["rows"], softmax.shape["cols"]) == (8, 6)
