"""When compiled convolutions run channels-last: by the kinds of convolutions in the graph."""

from __future__ import annotations

from typing import Any

import pytest

import ridgeline as rl
from ridgeline.prediction.traced.layouts import lays_channels_last

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_torch


def convolved(*layers: tuple[int, int, int, int], backward: bool = False, further: int = 0) -> Any:
    """Convolutions one after the other (inputs, outputs, window, groups), and so many additions."""
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(a, b, window, padding=window // 2, groups=groups) for a, b, window, groups in layers)
    )

    def run(x: Any) -> Any:
        y = net(x)
        for _ in range(further):
            y = y + 1.0
        return y

    return rl.trace(run, torch.empty(2, layers[0][0], 8, 8), backward=backward)


WIDE, NARROWING, GROUPED, DEPTHWISE, SMALL = (
    (128, 128, 3, 1),
    (128, 8, 3, 1),
    (128, 128, 3, 4),
    (128, 128, 3, 128),
    (8, 8, 3, 1),
)


@pytest.mark.parametrize(
    ("layers", "inference", "training"),
    [
        ((WIDE,), True, True),
        ((WIDE, NARROWING), True, False),
        ((WIDE, GROUPED), True, False),
        ((GROUPED,), False, False),
        ((WIDE, DEPTHWISE), True, True),
        ((SMALL,), True, False),
        ((), False, False),
    ],
)  # fmt: skip
def test_the_convolutions_of_a_graph_decide(layers: Any, inference: bool, training: bool) -> None:
    if not layers:
        assert not lays_channels_last(rl.trace(lambda x: x + 1.0, torch.empty(4)))
        return
    assert lays_channels_last(convolved(*layers)) is inference
    assert lays_channels_last(convolved(*layers, backward=True)) is training


def test_few_convolutions_among_many_calls_keep_their_layout() -> None:
    assert not lays_channels_last(convolved(WIDE, further=300))
