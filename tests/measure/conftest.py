"""Stand-in devices; and tests marked needs_compiler or needs_torch are skipped where this machine lacks them."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest
from fake_gpu import FakeGpu

from ridgeline.measure.cpu.build import COMPILERS
from ridgeline.measure.cuda.device import Library
from ridgeline.measure.cuda.memory import Memory

COMPILER = sys.platform != "win32" and any(shutil.which(name) for name in COMPILERS)
TORCH = importlib.util.find_spec("torch") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("needs_compiler") and not COMPILER:
            item.add_marker(pytest.mark.skip(reason="no C compiler on this machine"))
        if item.get_closest_marker("needs_torch") and not TORCH:
            item.add_marker(pytest.mark.skip(reason="torch is not installed"))


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


@pytest.fixture
def memory(gpu: FakeGpu) -> Memory:
    return Memory(gpu)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arithmetic chains of few steps, which NumPy repeats quickly."""
    monkeypatch.setattr("ridgeline.measure.cuda.arithmetic.STEPS", 64)


@pytest.fixture
def library() -> Library:
    """Torch's products on the CPU."""
    import torch

    return Library(torch, "cpu")
