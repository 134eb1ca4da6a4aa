"""Names of kernels that torch.compile generated: `triton_poi_fused_add_gelu_3` was made of add and gelu.

The compiler joins the names of the operators, sorted, with underscores, which some names hold themselves: of all ways to
read a name, the fewest operators are taken. Any word without an underscore may be an operator; `fused_names.py` lists
the names with underscores.
"""

from __future__ import annotations

import re
from functools import lru_cache

from .fused_names import FUSED_NAMES

LONG_NAMES = frozenset(FUSED_NAMES.split())
_LONGEST = max(name.count("_") for name in LONG_NAMES) + 1  # words of a name
_GENERATED = re.compile(r"(?:triton|cpp|cutlass|pallas)_(?:[a-z]+_)*?fused_(?P<operators>\w+?)_\d+")


@lru_cache(maxsize=4096)
def fused_operators(name: str) -> tuple[str, ...]:
    """The operators a generated kernel was made of; none for any other name."""
    generated = _GENERATED.fullmatch(name)
    return _split(generated["operators"].split("_")) if generated else ()


def _split(words: list[str]) -> tuple[str, ...]:
    """The fewest names that the words can be read as; `_to_copy` begins with an empty word."""
    best: list[tuple[str, ...] | None] = [()]
    for end in range(1, len(words) + 1):
        readings: list[tuple[str, ...]] = []
        for begin in range(max(0, end - _LONGEST), end):
            before, name = best[begin], "_".join(words[begin:end])
            if before is not None and name and (end - begin == 1 or name in LONG_NAMES):
                readings.append((*before, name))
        best.append(min(readings, key=len, default=None))
    return best[-1] or tuple(word for word in words if word)
