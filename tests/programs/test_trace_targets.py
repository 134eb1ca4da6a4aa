"""Targets `file.py:name` and graphs: what is built and traced, and the one message where it cannot be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traced import matrix_flops, names

import ridgeline as rl
from ridgeline.core.errors import InputError

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_torch

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.inner = nn.Linear(width, 16)

    def forward(self, x):
        return self.inner(x).relu()

def net():
    return Net(), (torch.randn(4, 8),)

def named():
    return Net(), (), {"x": torch.randn(4, 8)}

def exported():
    return torch.export.export(Net(), (torch.randn(4, 8),)), (torch.randn(4, 8),)

def graph():
    return torch.fx.symbolic_trace(Net()), (torch.randn(4, 8),)

def compiled():
    return torch.compile(Net()), (torch.randn(4, 8),)

def reading():
    width = int(torch.full((1,), 8).sum().item())
    return Net(width), (torch.randn(4, width),)

def huge():
    return nn.Linear(1 << 20, 1 << 20, bias=False), (torch.randn(8, 1 << 20),)

def wants(batch):
    return Net(), (torch.randn(batch, 8),)

def nothing():
    pass

def no_tuple():
    return Net(), torch.randn(4, 8)

def raising():
    raise RuntimeError("no weights here")

def no_inputs():
    return Net(), ()

number = 3
"""


@pytest.fixture
def target(tmp_path: Path) -> Callable[[str], str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return lambda name: f"{path}:{name}"


@pytest.mark.parametrize("name", ["net", "named", "exported", "graph", "compiled", "reading"])
def test_a_program_is_traced_however_it_is_given(name: str, target: Callable[[str], str]) -> None:
    trace = rl.trace(target(name))
    assert names(trace) == {"addmm": 1, "relu": 1}
    assert matrix_flops(trace) == 2 * 4 * 8 * 16
    assert trace.name == name
    first = next(op for op in trace.ops if op.work is not None)
    assert first.site.modules[-1] == "inner:Linear"


def test_building_takes_no_memory(target: Callable[[str], str]) -> None:
    assert matrix_flops(rl.trace(target("huge"))) == 2 * 8 * 2.0**40  # its weights would be 4 TB


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "unknown function 'absent'"),
        ("number", "is not a function"),
        ("wants", r"takes arguments \(batch\), so there are no example inputs"),
        ("nothing", "returned nothing; nothing must be a function without arguments"),
        ("no_tuple", "with args as a tuple"),
        ("raising", r"program\.py:45: RuntimeError: no weights here"),
        ("no_inputs", "do not fit Net.*missing a required argument: 'x'"),
    ],
)
def test_a_target_that_cannot_be_traced_says_why(name: str, message: str, target: Callable[[str], str]) -> None:
    with pytest.raises(InputError, match=message):
        rl.trace(target(name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\nimport no_such_module\n", r"broken\.py:2: ModuleNotFoundError"),
        ("import torch\ndef f(:\n", r"broken\.py:2 is no Python"),
        ("import torch\n1 / 0\n", r"broken\.py:2: ZeroDivisionError"),
    ],
)
def test_a_file_that_raises_is_reported_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        rl.trace(f"{tmp_path / 'broken.py'}:f")


def test_other_texts_are_no_targets(tmp_path: Path) -> None:
    for text in ("program", "program.py", f"{tmp_path}/absent.py:net"):
        with pytest.raises(InputError, match=r"file\.py:name"):
            rl.trace(text)


def test_a_function_of_numpy_is_not_traced_as_nothing() -> None:
    with pytest.raises(InputError, match="ran no operator of PyTorch or JAX"):
        rl.trace(lambda x: x + 1, np.ones(3))
