"""Elementwise kernels of a profile that follow each other over the same bytes: what one writes, the next one reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from ..core.observation import Observation
from .gap import SharedTensor
from .kernel_families import bytes_through_l1, only_converts

ELEMENTWISE = re.compile(r"elementwise_kernel|triton_poi")
MAX_DIFFERENCE = 0.1  # of the bytes written, within which the next kernel reads as many, once or several times

MAX_IN_RANGE = 16  # kernels of a range, up to which those that follow each other work on the same data


def passed_on(observations: Sequence[Observation]) -> dict[int, SharedTensor]:
    """By the identity of a kernel's observation, the tensor that it passes to the next one, in the order they ran.

    Equal names of different kernels are those of a range around both. Where it has few kernels, the equal size is no
    coincidence; a range around a step of training has many that are not related. Where the others of such a range are no
    copies, a copy into another layout is made for them.
    """
    shared, in_range = {}, Counter((item.path, item.name) for item in observations)
    used = {(item.path, item.name) for item in observations if not only_converts(item)}
    for first, second in pairwise(observations):
        place = (first.path, first.name)
        few = in_range[place] <= MAX_IN_RANGE
        if only_converts(first) and few and place in used:
            written = bytes_through_l1(first.counters, "store")
            shared[id(first)] = SharedTensor("the next kernel", "a copy in another layout", written, True, layout=True)
            continue
        if not (_is_elementwise(first) and _is_elementwise(second)) or len(first.samples) != len(second.samples):
            continue
        written, read = bytes_through_l1(first.counters, "store"), bytes_through_l1(second.counters, "load")
        times = round(read / written) if written else 0
        if times and abs(read / written - times) <= MAX_DIFFERENCE:
            together = place == (second.path, second.name) and few
            shared[id(first)] = SharedTensor("the next kernel", "its result", written, together)
    return shared


def _is_elementwise(item: Observation) -> bool:
    return ELEMENTWISE.search(item.kernel) is not None and not only_converts(item)
