"""Layouts in traces: convolutions on a GPU answer in the layout of their operands, and what follows keeps it."""

from __future__ import annotations

from typing import Any

import pytest

import ridgeline as rl
from ridgeline.core.trace import Trace

torch: Any = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.needs_torch
LAST = torch.channels_last


def layers(dtype: Any = torch.float16) -> Any:
    made = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1))
    return made.to(dtype)


def innermost(trace: Trace) -> set[str]:
    """The dimension that lies innermost in the results of four dimensions."""
    results = [op.site.call.outputs[0] for op in trace.ops if op.site.call.outputs and op.work is not None]
    images = [result for result in results if len(result.shape) == 4]
    assert images
    return {"channels" if image.strides[1] == 1 else "width" for image in images}


def image(dtype: Any = torch.float16, channels_last: bool = False) -> Any:
    made = torch.empty(2, 8, 16, 16, dtype=dtype)
    return made.to(memory_format=LAST) if channels_last else made


def test_a_network_stays_in_the_layout_of_its_input() -> None:
    assert innermost(rl.trace(layers(), image())) == {"width"}
    assert innermost(rl.trace(layers(), image(channels_last=True))) == {"channels"}


def test_the_layout_of_a_weight_decides_too() -> None:
    assert innermost(rl.trace(layers().to(memory_format=LAST), image())) == {"channels"}


def test_double_precision_convolutions_are_contiguous() -> None:
    trace = rl.trace(nn.Conv2d(8, 8, 3).double(), image(torch.float64, channels_last=True))
    assert innermost(trace) == {"width"}


def test_gradients_have_the_layout_of_what_they_are_gradients_of() -> None:
    trace = rl.trace(layers(torch.float32), image(torch.float32, channels_last=True).requires_grad_(), backward=True)
    gradients = [op.site.call.outputs for op in trace.ops if op.site.call.name == "aten::convolution_backward"]
    assert gradients
    assert all(result.strides[1] == 1 for results in gradients for result in results if len(result.shape) == 4)
