"""Programs that ask whether they are being compiled are answered as the mode of the prediction has it."""

from __future__ import annotations

from typing import Any

import pytest
from traced import names

import ridgeline as rl

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_torch


def asks(x: Any) -> Any:
    return x.exp() if torch.compiler.is_compiling() else x.sin()


def test_a_program_may_do_other_things_when_it_is_compiled() -> None:
    assert names(rl.trace(asks, torch.empty(8))) == {"sin": 1}
    assert names(rl.trace(asks, torch.empty(8), compiled=True)) == {"exp": 1}
    assert not torch.compiler.is_compiling()


def test_optimizers_step_when_a_program_is_compiled() -> None:
    model = torch.nn.Linear(8, 8)
    traces = [
        rl.trace(model, torch.empty(4, 8), optimizer=torch.optim.AdamW(model.parameters()), compiled=compiled)
        for compiled in (False, True)
    ]
    assert names(traces[0]) == names(traces[1])
