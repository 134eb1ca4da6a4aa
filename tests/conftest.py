"""Hypothesis profiles: `fixed` tries the same examples on every run, `random` three times as many new ones (`make test-random`)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

COMMON = settings(
    deadline=None,  # no test depends on how fast the machine is
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fixed", COMMON, derandomize=True, max_examples=34)
settings.register_profile("random", COMMON, derandomize=False, print_blob=True, max_examples=100)
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def no_measured_machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test sees what was measured on the machine it runs on: `here` would be the default of every command."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
