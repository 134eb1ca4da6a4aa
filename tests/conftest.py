"""Hypothesis profiles: `fixed` tries the same examples on every run, `random` six times as many new ones (`make test-random`)."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from amount import WIDE

# Several tests run at a time: a pool of threads in each, as wide as the machine, makes all of them slower. Libraries read these when they load.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# What is collected stays to the end: looking through it for garbage again and again took a fifth of the time of all tests.
gc.set_threshold(100_000, 50, 100)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


COMMON = settings(
    deadline=None,  # no test depends on how fast the machine is
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fixed", COMMON, derandomize=True, max_examples=100 if WIDE else 16)
settings.register_profile("random", COMMON, derandomize=False, print_blob=True, max_examples=100)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def config_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that do not exist, a new one each time: to make thousands of numbered folders takes longer than most tests."""
    root = tmp_path_factory.mktemp("config")
    return (root / str(number) for number in count())


@pytest.fixture(autouse=True)
def no_measured_machine(monkeypatch: pytest.MonkeyPatch, config_folders: Iterator[Path]) -> None:
    """No test sees what was measured on the machine it runs on: `here` would be the default of every command."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(next(config_folders)))
