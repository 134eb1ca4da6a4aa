"""Skips what this machine lacks: tests marked needs_compiler or needs_torch say so instead of failing."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest

from ridgeline.measure.cpu.build import COMPILERS

COMPILER = sys.platform != "win32" and any(shutil.which(name) for name in COMPILERS)
TORCH = importlib.util.find_spec("torch") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("needs_compiler") and not COMPILER:
            item.add_marker(pytest.mark.skip(reason="no C compiler on this machine"))
        if item.get_closest_marker("needs_torch") and not TORCH:
            item.add_marker(pytest.mark.skip(reason="torch is not installed"))
