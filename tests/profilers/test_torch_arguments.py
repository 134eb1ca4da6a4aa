"""Arguments of operators at the places of their schema; lines of the user's program; names of compiled kernels."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.timeline import Call, Tensor
from ridgeline.profilers.frames import source_line
from ridgeline.profilers.torch_profiler.arguments import arguments, scalar
from ridgeline.profilers.torch_profiler.compiled import LONG_NAMES, fused_operators

CONVOLUTION = {
    "dims": [[8, 3, 16, 16], [16, 3, 3, 3], [16], [], [], [], [], [], []],
    "types": ["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"],
    "strides": [[768, 256, 16, 1], [27, 9, 3, 1], [1], [], [], [], [], [], []],
    "inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
}


def test_every_argument_is_at_its_place() -> None:
    assert arguments(**CONVOLUTION) == (
        Tensor((8, 3, 16, 16), "fp32", (768, 256, 16, 1)),
        Tensor((16, 3, 3, 3), "fp32", (27, 9, 3, 1)),
        Tensor((16,), "fp32", (1,)),
        (1, 1),
        (1, 1),
        (1, 1),
        False,
        (0, 0),
        1,
    )


def test_a_missing_argument_keeps_its_place() -> None:
    args = arguments(
        [[128, 64], [128], [], [], []], ["float", "long int", "", "Scalar", "Scalar"], None, ["", "", "", "1", "-100"]
    )
    assert args == (Tensor((128, 64), "fp32"), Tensor((128,), "int64"), None, 1, -100)


def test_lists_of_tensors_are_tuples() -> None:
    args = arguments([[[3, 4], [5, 4]], []], ["TensorList", "Scalar"], [[[4, 1], [4, 1]], []], ["", "0"])
    assert args == ((Tensor((3, 4), "", (4, 1)), Tensor((5, 4), "", (4, 1))), 0)
    assert len(Call("aten::cat", args).tensors) == 2


def test_a_tensor_without_dimensions_is_one() -> None:
    assert arguments([[], []], ["float", "Scalar"], [[], []], ["", "2.5"]) == (Tensor((), "fp32"), 2.5)


def test_without_types_shapes_are_tensors_of_unknown_dtype() -> None:
    assert arguments([[4, 4], []], None) == (Tensor((4, 4)), None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("6", 6), ("-100", -100), ("0.", 0.0), ("1e-05", 1e-5), ("True", True), ("-inf", -math.inf), ("", None), ("[]", ()),
     ("[True, False]", (True, False)), ("sum", "sum"), ("cuda:0", "cuda:0"), ("9" * 30, float("9" * 30))],
)  # fmt: skip
def test_scalars(text: str, value: Any) -> None:
    assert scalar(text) == value


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=12))
def test_any_value_gives_arguments(value: Any) -> None:
    for args in (arguments(value, value, value, value), arguments([value], ["float"]), arguments([], [], [], [value])):
        for tensor in Call("made", args).tensors:
            assert all(type(size) is int and size >= 0 for size in tensor.shape)


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        ("train.py(14): step", "train.py:14 (step)"),
        ("/home/user/project/models/net.py(7): forward", "models/net.py:7 (forward)"),
        ("profile.py(3): main", "profile.py:3 (main)"),  # a script, not the module of Python
        ("torch/nn/modules/module.py(1518): _call_impl", ""),
        ("contextlib.py(79): inner", ""),
        ("logging/__init__.py(1720): getEffectiveLevel", ""),
        ("/usr/lib/python3.11/threading.py(975): run", ""),
        ("/opt/env/lib/python3.12/site-packages/mylib/core.py(3): run", ""),
        ("<frozen os>(674): __getitem__", ""),
        ("<built-in method add of type object at 0x7f>", ""),
    ],
)
def test_lines_of_the_user(frame: str, line: str) -> None:
    assert source_line(frame) == line


@pytest.mark.parametrize(
    ("kernel", "operators"),
    [
        ("triton_poi_fused_add_gelu_3", ("add", "gelu")),
        ("triton_per_fused__to_copy_add_native_layer_norm_native_layer_norm_backward_view_10",
         ("_to_copy", "add", "native_layer_norm", "native_layer_norm_backward", "view")),
        ("triton_red_fused__log_softmax_nll_loss_forward_2", ("_log_softmax", "nll_loss_forward")),
        ("cpp_fused_add_relu_0", ("add", "relu")),
        ("triton_poi_fused_0", ()),
        ("nvjet_sm90_tst_192x192", ()),
        ("my_fused_add_3", ()),
    ],
)  # fmt: skip
def test_fused_operators(kernel: str, operators: tuple[str, ...]) -> None:
    assert fused_operators(kernel) == operators


SHORT = ("add", "mul", "relu", "sum", "view")


@given(st.sets(st.sampled_from([*sorted(LONG_NAMES), *SHORT]), min_size=1, max_size=5))
def test_reading_a_name_gives_names_that_make_it_again(operators: set[str]) -> None:
    joined = "_".join(sorted(operators))
    read = fused_operators(f"triton_poi_fused_{joined}_7")
    assert "_".join(read) == joined
    assert len(read) <= len(operators)
