"""Elementwise kernels of a profile that follow each other over the same bytes: what one writes, the next one reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ..core.observation import Observation
from .access import SECTOR
from .gap import SharedTensor
from .kernel_families import is_conversion

ELEMENTWISE = re.compile(r"elementwise_kernel|triton_poi")
MAX_DIFFERENCE = 0.1  # of the bytes written, within which the next kernel reads as many, once or several times

MAX_IN_RANGE = 16  # kernels of a range, up to which those that follow each other work on the same data


def passed_on(observations: Sequence[Observation]) -> dict[int, SharedTensor]:
    """By the identity of a kernel's observation, the tensor that it passes to the next one, in the order they ran.

    Equal names of different kernels are those of a range around both. Where it has few kernels, the equal size is no
    coincidence; a range around a step of training has many that are not related.
    """
    shared, in_range = {}, Counter((item.path, item.name) for item in observations)
    for first, second in pairwise(observations):
        if not (_is_elementwise(first) and _is_elementwise(second)) or len(first.samples) != len(second.samples):
            continue
        written, read = _through_l1(first, "store"), _through_l1(second, "load")
        times = round(read / written) if written else 0
        if times and abs(read / written - times) <= MAX_DIFFERENCE:
            place = (first.path, first.name)
            together = place == (second.path, second.name) and in_range[place] <= MAX_IN_RANGE
            shared[id(first)] = SharedTensor("the next kernel", "its result", written, together)
    return shared


def _is_elementwise(item: Observation) -> bool:
    return ELEMENTWISE.search(item.kernel) is not None and not is_conversion(item.kernel)


def _through_l1(item: Observation, way: str) -> float:
    """Bytes of the loads or stores of a kernel; 0 where they were not counted."""
    return SECTOR * item.counters.get(f"{way}_requests", 0.0) * item.counters.get(f"sectors_per_{way}", 0.0)
