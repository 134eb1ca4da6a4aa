"""The convolution that the CPU runs where oneDNN does not: its gradients are those of any convolution."""

from __future__ import annotations

import pytest

from ridgeline.core.timeline import Call, Tensor
from ridgeline.programs.aten import count

X, W, DY = Tensor((4, 16, 9, 9), "fp32"), Tensor((32, 16, 3, 3), "fp32"), Tensor((4, 32, 5, 5), "fp32")
MULTIPLY_ADDS = 4 * 32 * 5 * 5 * 16 * 3 * 3  # batch, channels out, output, channels in, kernel


@pytest.mark.parametrize(("mask", "gradients"), [((True, True, False), 2), ((False, True, False), 1), ((True, False, False), 1)])  # fmt: skip
def test_gradients_of_image_and_weights_cost_what_the_forward_pass_does(mask: tuple[bool, ...], gradients: int) -> None:
    slow = count(Call("aten::_slow_conv2d_backward", (DY, X, W, (3, 3), (2, 2), (1, 1), mask)))
    usual = count(Call("aten::convolution_backward", (DY, X, W, (0,), (2, 2), (1, 1), (1, 1), False, (0, 0), 1, mask)))
    assert slow.kind == "work"
    assert slow.work is not None
    assert usual.work is not None
    assert slow.work.flops == 2 * MULTIPLY_ADDS * gradients
    assert slow.work == usual.work


def test_a_call_without_its_stride_is_unknown() -> None:
    assert count(Call("aten::_slow_conv2d_backward", (DY, X, W))).kind == "unknown"
