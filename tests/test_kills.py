"""Programs killed while they write lose nothing and leave nothing half-visible (`benchmarks/kills.py`, a few kills of each)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[1] / "benchmarks" / "kills.py"


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kills", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kills"] = module
    spec.loader.exec_module(module)
    return module


KILLS = script()


@pytest.mark.parametrize("name", list(KILLS.CASES))
def test_killed_writers_lose_nothing(name: str, tmp_path: Path) -> None:
    write, check, next_command = KILLS.CASES[name]
    counts = KILLS.killed(write, check, tmp_path, kills=20, seed=1)
    assert sum(counts.values()) == 20
    next_command(tmp_path)


def test_a_writer_that_is_not_atomic_is_caught(tmp_path: Path) -> None:
    """The harness itself: a file that is written in place is seen half-written."""

    def write(folder: Path, begin: KILLS.Begin) -> None:
        begin()
        while True:
            (folder / "file").write_bytes(b"x" * 30_000_000)

    def check(folder: Path) -> str:
        file = folder / "file"
        return "complete" if file.is_file() and file.stat().st_size == 30_000_000 else "half"

    assert KILLS.killed(write, check, tmp_path, kills=20, seed=1)["half"]
