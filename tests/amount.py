"""How much the wide tests try: a sample in every run, everything with `make test-wide`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")
WIDE = "RIDGELINE_TEST_WIDE" in os.environ


def some(items: Iterable[Item], every: int) -> list[Item]:
    """Every so many-th of them, the first included; all of them in a wide run."""
    return list(items)[:: 1 if WIDE else every]
