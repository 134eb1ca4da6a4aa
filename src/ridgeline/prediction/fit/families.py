"""Coefficients of kernel families from timed cases, with the error on timings that were held out.

Each group is fitted without a fold of its timings and evaluated on them, fold by fold; what is kept is fitted to all of
it, with the error and the interval of the held-out timings. The timings of a machine are kept with its coefficients, and
correct the formula around them. 16-bit dtypes mostly run the same kernels, and are then fitted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.families import RESIDENT, Coefficient, Key, nearby
from ...core.families.correction import Correction
from ...core.fitted import Fitted
from ...core.machine import Machine
from ...core.statistics import Errors
from . import similar
from .groups import Group, by_hardware, group, thinned
from .intervals import ends
from .least_squares import Vector, folds, solve

MIN_TIMINGS = {
    "gpu": 12,
    "cpu": 8,
}  # below which a group is not fitted, by kind of machine; a CPU has fewer kernels per op
# Coefficients that take one of a few values.
CHOICES: Mapping[str, tuple[float, ...]] = {
    **{"smallest": (32.0, 64.0, 128.0), "most": (2.0, 64.0), "several": (0.0, 32.0, 256.0)},  # 0: without
    **{"tall": (64.0, 128.0), "step": (16.0, 32.0, 64.0), "splits": (1.0, 128.0), "shared": (1.0, 16.0)},
    **{"columns": (8.0, 16.0, 64.0, 128.0), "rows": (1.0, 16.0, 64.0), "parts_at_most": (1.0, 8.0)},
    **{"padded": (0.0, 32.0, 64.0), "apart": (0.0, 3e-6, 8e-6, 2e-5, 5e-5)},
}
FOLDS = 4  # of timings that are kept with their coefficients; others are judged in halves
POOL_TIMINGS = 1500  # of a pool, which its groups start from
MAX_FITTED = 400  # timings that decide the coefficients; all of them give the error and the correction nearby
MAX_CHOOSING = 160  # timings that choose among the coefficients that take one of a few values
# What products of many rows and columns do not tell, because they fill the cores with any tiles: the usual value is taken.
OF_SMALL_PRODUCTS, LARGE_SIDE = ("smallest", "most"), 512.0
MAX_CHOICE_ERROR = 0.5  # errors of the logarithm count up to this when choices are compared


def fit(
    groups: Sequence[Group],
    source: str,
    optional: Sequence[str] = (),
    start: Mapping[str, float] | None = None,
    keep_timings: bool = False,
    min_timings: int = MIN_TIMINGS["gpu"],
    choice: Mapping[str, float] | None = None,
) -> Fitted | None:
    """Coefficients for groups that share a formula (one, or the same kernels on several machines); None for too few timings.

    `keep_timings` keeps the timings too, to correct the formula by those nearby; they must then be of one machine. `choice` are
    the coefficients that take one of a few values, where they are known.
    """
    count = sum(map(len, groups))
    if count < min_timings:
        return None
    fixed = _choice(groups, optional, start) if choice is None else choice
    coefficients = {name: rounded(value) for name, value in _coefficients(groups, optional, start, fixed).items()}
    process = similar.search(*_timings(groups, coefficients)) if keep_timings else None
    parts = FOLDS if keep_timings else 2
    sides = folds([len(timed) for timed in groups], parts)
    ways = [None, process] if process else [None]  # the formula alone, then corrected by similar timings
    ratios = [np.empty(count) for _ in ways]
    for side in range(parts):
        train = [timed.part(fold != side) for timed, fold in zip(groups, sides, strict=True)]
        held_out = [fold == side for fold in sides]
        trained = _coefficients(train, optional, start, fixed)
        for ratio, way in zip(ratios, ways, strict=True):
            ratio[np.concatenate(held_out)] = _ratios(groups, held_out, trained, way)
    return _judged(groups, coefficients, list(zip(ratios, ways, strict=True)), source)


def renewed(known: Fitted, groups: Sequence[Group], source: str) -> Fitted:
    """Coefficients as they are, with the correction, error and interval of these timings: more than they were fitted to.

    A dozen coefficients hardly move with further timings; what similar shapes say does.
    """
    shape, sizes, ratio = _timings(groups, known.coefficients)
    process = similar.search(shape, sizes, ratio)
    ways = [(ratio, None), (similar.held_out(shape, sizes, ratio, process), process)]
    return _judged(groups, known.coefficients, ways, source)


def _judged(
    groups: Sequence[Group],
    coefficients: Mapping[str, float],
    ways: Sequence[tuple[Vector, similar.Process | None]],
    source: str,
) -> Fitted:
    """The better of several ways to correct a formula, each with measured over predicted times of held-out timings."""
    # where other kernels ran for most shapes nearby, a correction only adds noise
    ratio, process = min(ways, key=lambda way: _typical_error(way[0]))
    errors = Errors.of(1 / ratio, np.ones_like(ratio))
    shared = [name for name in groups[0].sizes if all(name in timed.sizes for timed in groups)]
    sizes = {name: np.concatenate([timed.sizes[name] for timed in groups]) for name in shared}
    table = similar.table(*_timings(groups, coefficients), process) if process else None
    predicted = np.concatenate([timed.times for timed in groups]) / ratio
    low, high, jitter = ends(ratio, table.lowest(sizes) - table.correction(sizes) if table else 0.0, predicted)
    return Fitted(
        coefficients=dict(coefficients),
        error=rounded(errors.median),
        p90=rounded(errors.p90),
        low=rounded(low),
        high=rounded(high),
        cases=len(ratio),
        source=source,
        ranges={
            name: (rounded(values.min()), rounded(values.max()))
            for name, values in sizes.items()
            if values.min() > 0 and values.max() > values.min()
        },
        nearby=table.text() if table else "",
        jitter=jitter,
    )


def rounded(value: float) -> float:
    """Four digits: more than the timings support."""
    return float(f"{value:.4g}")


def _ratios(
    groups: Sequence[Group],
    held_out: Sequence[NDArray[np.bool_]],
    coefficients: Mapping[str, float],
    process: similar.Process | None,
) -> Vector:
    """Measured over predicted times of what was held out; with a process, each corrected by nine tenths of the others.

    A prediction is corrected by every timing there is: judged by half of them, its interval would be too wide.
    """
    if process is None:
        return _timings([timed.part(chosen) for timed, chosen in zip(groups, held_out, strict=True)], coefficients)[2]
    return similar.held_out(*_timings(groups, coefficients), process)[np.concatenate(held_out)]


def _predicted(timed: Group, coefficients: Mapping[str, float], table: Correction | None) -> Vector:
    """The formula's times, corrected by timings nearby where there are some."""
    times = timed.formula_times(coefficients)
    return times * np.exp(table.correction(timed.sizes)) if table else times


def _timings(
    groups: Sequence[Group], coefficients: Mapping[str, float]
) -> tuple[tuple[str, ...], dict[str, Vector], Vector]:
    """The shape of the cases, their sizes, and measured over the formula's times."""
    ratios = [timed.times / timed.formula_times(coefficients) for timed in groups]
    shared = [name for name in groups[0].sizes if all(name in timed.sizes for timed in groups)]
    sizes = {name: np.concatenate([timed.sizes[name] for timed in groups]) for name in shared}
    return groups[0].family.near_by(sizes), sizes, np.concatenate(ratios)


def _coefficients(
    groups: Sequence[Group], optional: Sequence[str], start: Mapping[str, float] | None, fixed: Mapping[str, float]
) -> dict[str, float]:
    """The best fit with the coefficients that take one of a few values as they were chosen; 0 is without.

    A sample of the timings decides: a dozen coefficients need no thousand of them.
    """
    groups = thinned(groups, MAX_FITTED)
    free = {name: row for name, row in _used(groups, optional).items() if name not in fixed}
    measured = np.concatenate([timed.times for timed in groups])

    def predict(given: dict[str, float]) -> Vector:
        return np.concatenate([timed.formula_times({**given, **fixed}) for timed in groups])

    coefficients = {**solve(predict, measured, free, start), **fixed}
    return {name: value for name, value in coefficients.items() if value}


def _choice(groups: Sequence[Group], optional: Sequence[str], start: Mapping[str, float] | None) -> dict[str, float]:
    """The coefficients that take one of a few values, by the best fit to a small sample over every combination."""
    sample = thinned(groups, MAX_CHOOSING)
    options = {name: CHOICES[name] for name in _used(groups, optional) if name in CHOICES}
    if all(_large(timed) for timed in groups):
        options |= {name: options[name][:1] for name in OF_SMALL_PRODUCTS if name in options}
    if not options:
        return {}
    fits: list[tuple[float, dict[str, float]]] = []
    for values in product(*options.values()):
        fixed = dict(zip(options, values, strict=True))
        if fixed.get("several") and fixed["smallest"] > min(CHOICES["smallest"]):
            continue  # those tiles are a list of their own
        coefficients = _coefficients(sample, optional, start, fixed)
        ratios = [timed.times / timed.formula_times(coefficients) for timed in sample]
        fits.append((_typical_error(np.concatenate(ratios)), fixed))
    return min(fits, key=lambda fitted: fitted[0])[1]


def _large(timed: Group) -> bool:
    """Whether these are products, none of them small."""
    return all(name in timed.sizes and np.min(timed.sizes[name]) >= LARGE_SIDE for name in ("m", "n"))


def _typical_error(ratio: Vector) -> float:
    return float(np.mean(np.minimum(np.abs(np.log(ratio)), MAX_CHOICE_ERROR)))


def _used(groups: Sequence[Group], optional: Sequence[str]) -> dict[str, Coefficient]:
    rows = groups[0].family.coefficients
    return {name: row for name, row in rows.items() if not row.optional or name in optional}


def _better(known: Fitted | None, new: Fitted | None, groups: Sequence[Group]) -> Fitted | None:
    """Whichever has the smaller median error on the timings: the new fit, on held-out halves, or what was there before.

    A few timings of a machine that is well known, or similar to one, bring nothing new.
    """
    if known is None:
        return new
    table = nearby.read(str(known.nearby)) if known.nearby else None
    predicted = np.concatenate([_predicted(timed, known.coefficients, table) for timed in groups])
    error = Errors.of(predicted, np.concatenate([timed.times for timed in groups])).median
    return new if new is not None and new.error <= error else replace(known, borrowed=False)


# -- all families of a machine --------------------------------------------------------------------------------

HALF_DTYPES = ("bf16", "fp16")
CHUNKED = ("adamw_fused", "adamw_foreach", "sgd")  # ops over tensors in pieces of one block
STEPPED = ("max_pool_nhwc", "max_pool_backward_nhwc", "sum_columns")  # ops whose threads take several steps each
# gradients that are summed over rows, gathers of a few rows, and sums of columns whose parts meet in memory
ROW_AFTER_ROW = ("layernorm_backward", "rmsnorm_backward", "embedding", "sum_columns")
SAME_NUMBERS = ("scan",)  # families whose variants differ in sizes that their formula knows
SHARED_KERNELS = ("attention", "moe", "transpose")  # families whose ops share their kernels


def optional(key: Key) -> tuple[str, ...]:
    """Effects that not all fits bring: rows one after the other; chunks of tensors; steps of a thread; the parts of a split k; layout changes of images; several tiles on a core at once; Winograd in fp32 alone."""
    if key.op in ROW_AFTER_ROW:
        return ("deep", "chain") if key.op in STEPPED else ("deep",)
    if key.op in CHUNKED:
        return ("chunk",)
    if key.op in STEPPED:
        return ("chain",) if key.op == "sum_columns" else ("chain", "fetch")
    if key.family != "conv":
        return ("parts", "several") if key.family == "gemm" else ()
    if "alone" in key.variant:  # sums tap by tap, no products in tiles
        return ("layout",)
    split: tuple[str, ...] = ("parts",) if key.op.startswith("wgrad_") else ()
    split += ("apart",) if key.variant.startswith("grouped") else ()
    transform = ("winograd", "transform") if key.dtype == "fp32" else ()
    return (*transform, *split, "padded", "layout", "several")


def together(key: Key) -> Key:
    """The key a group is fitted under: 16-bit dtypes share kernels, but for products and convolutions of few channels."""
    apart = key.family == "gemm" or key.kernels.startswith(("conv-grouped-alone", "conv-few"))
    return key if key.dtype not in HALF_DTYPES or apart else key._replace(dtype=HALF_DTYPES[0])


def _pool(key: Key) -> Key:
    """The key of the family and dtype, with all ops and variants together; resident operands apart."""
    dtype = HALF_DTYPES[0] if key.dtype in HALF_DTYPES else key.dtype
    return Key(key.family, dtype, RESIDENT if key.resident else "", backend=key.backend)


def fit_cases(
    cases: Iterable[Mapping[str, Any]],
    machine: Machine,
    source: str,
    tell: Callable[[str], None] | None = None,
    wanted: Callable[[Key], bool] = lambda key: True,
    resident: bool = False,
) -> dict[Key, Fitted]:
    """Coefficients for every kernel among the cases (op, sizes, `time_us`), with the error on held-out halves.

    A family starts from what the machine has or borrows, and its groups from the family: few timings move few
    coefficients. What the machine has or borrows stays where its error on the timings is smaller than that of the fit.
    Only the keys that are wanted are fitted. `resident` cases had their operands in the caches of a CPU.
    """
    joined: dict[Key, list[Group]] = {}
    pooled: dict[Key, list[Group]] = {}  # what a group starts from
    every = group(cases, machine, lambda kernel: kernel.family not in SHARED_KERNELS, SAME_NUMBERS, resident)
    for key, timed in every.items():
        joined.setdefault(together(key), []).append(timed)
        pooled.setdefault(_pool(key), []).append(timed)
    few = MIN_TIMINGS.get(machine.kind, MIN_TIMINGS["gpu"])
    fitted: dict[Key, Fitted] = {}
    pool_fits: dict[Key, Fitted | None] = {}
    for key, groups in sorted(joined.items(), key=lambda item: str(item[0])):
        if not wanted(key):
            continue
        pool, effects = _pool(key), optional(key)
        if pool not in pool_fits:
            known = machine.fitted.get(pool)
            start = known.coefficients if known else None
            sample = by_hardware(thinned(pooled[pool], POOL_TIMINGS))
            pool_fits[pool] = fit(sample, source, effects, start, min_timings=few)
        known = machine.fitted.get(key)
        nearest = known or pool_fits[pool]
        start = nearest.coefficients if nearest else None
        new = fit(groups, source, effects, start, keep_timings=True, min_timings=few)
        better = _better(known, new, groups)
        if better is None:
            continue
        fitted[key] = better
        if tell:
            tell(f"{key}: {better.cases} timings, {better.errors}")
    return both_halves(_completed(fitted, pool_fits, machine), every)


def _completed(fitted: dict[Key, Fitted], pools: Mapping[Key, Fitted | None], machine: Machine) -> dict[Key, Fitted]:
    """With what is known of variants, ops and dtypes that were not timed themselves."""
    fitted = dict(fitted)
    # a variant that was not timed keeps what is known of it, before a wider one that was
    for key, row in machine.fitted.items():
        if key not in fitted and any(wider in fitted for wider in key.wider_variants()):
            fitted[key] = replace(row, borrowed=False)
    # ops and variants that were not timed take the coefficients of their family, unless finer ones are borrowed
    borrowing = {key.family for key, row in machine.fitted.items() if row.borrowed}
    for pool, pool_fit in pools.items():
        if pool_fit is not None and pool not in fitted and pool.family not in borrowing:
            fitted[pool] = pool_fit
    return fitted


def both_halves(fitted: Mapping[Key, Fitted], timed: Iterable[Key]) -> dict[Key, Fitted]:
    """With the coefficients that 16-bit dtypes share under both of them, for ops that were timed in both."""
    first, second = HALF_DTYPES
    both = {(key.family, key.op, key.backend) for key in timed if key.dtype == second}
    copies = {
        key._replace(dtype=second): row
        for key, row in fitted.items()
        if key.dtype == first and (key.family, key.op, key.backend) in both
    }
    return {**copies, **fitted}
