"""Many cases of one op in one call, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.machine import Machine
from ..core.work import Work
from ..machines.libraries import check
from ..machines.load import as_machine
from .kernel_steps import ran_with
from .predict import RESULTS, predict

BLOCK = 1 << 17  # cases at a time, so that the arrays of a block stay in cache
OPTIONS = ("ceilings", "engine", "resident", "efficiency", "launch", "backend")


def predict_cases(
    make: Callable[..., Work],
    machine: Machine | str | Path,
    sizes: Mapping[str, Any],
    wanted: Iterable[str] = RESULTS,
    words: Mapping[str, Any] | None = None,
    ran_on: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Many cases of one op in one call: arrays of sizes in, one array per wanted field out.

    The cases go through in blocks that fit the cache, which is faster than whole arrays and needs no memory beyond
    the answer. `options` are the op's words (dtype, variant ...) and those of `predict`, separated by name. `words` are
    the op's alone: an op may have one that `predict` has too, as `custom` has `engine`. `ran_on` is the library that the
    cases ran on; where nobody timed it, the default path stands in, which a `backend` that is asked for does not.
    """
    machine = as_machine(machine)
    check(ran_on, machine, named=False)
    of_predict = {name: value for name, value in options.items() if name in OPTIONS}
    of_op = {name: value for name, value in options.items() if name not in OPTIONS} | dict(words or {})
    wanted = tuple(wanted)
    arrays = {name: np.atleast_1d(np.asarray(value)) for name, value in sizes.items()}
    count = max((len(array) for array in arrays.values()), default=1)
    for name, array in arrays.items():
        if array.ndim > 1 or len(array) not in (1, count):
            raise InputError(f"{name} has {len(array)} values where the others have {count}")
    fields: dict[str, Any] = {}
    # Freeing one large array makes the C library keep what is freed from here on; without it every array of every
    # block is fetched anew from the operating system, page fault by page fault, at twice the time.
    np.empty(1 << 21)
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        block = {name: array[start:stop] if len(array) > 1 else array[0] for name, array in arrays.items()}
        columns = predict(ran_with(make(**block, **of_op), ran_on), machine, **of_predict).columns(wanted)
        for name, value in columns.items():
            fields[name] = _extended(fields.get(name), value, slice(start, stop), count)
    return fields


def _extended(before: Any, value: Any, block: slice, count: int) -> Any:
    """A field with the value of one more block: one value as long as all blocks have the same, else an array."""
    if not isinstance(value, np.ndarray) and (block.start == 0 or (type(value) is type(before) and value == before)):
        return value
    if not isinstance(before, np.ndarray):  # the first array, after blocks that had one value for all
        kind = np.asarray(value).dtype
        # texts keep the width of the longest name there is, so that a later block never cuts one
        kind = np.dtype(object) if isinstance(value, str) else np.dtype("<U32") if kind.kind == "U" else kind
        before, single = np.empty(count, dtype=kind), before
        before[: block.start] = single
    before[block] = value
    return before
