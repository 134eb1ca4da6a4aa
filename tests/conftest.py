"""Hypothesis profiles: `fixed` tries the same examples on every run, `random` new ones (`make test-random`)."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

COMMON = settings(
    deadline=None,  # no test depends on how fast the machine is
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("fixed", COMMON, derandomize=True)
settings.register_profile("random", COMMON, derandomize=False, print_blob=True)
settings.load_profile("fixed")
