"""Timed cases to the coefficients of kernel families: grouped by what runs the same kernels, fitted, judged on the rest.

Each group is fitted on one half and judged on the other, both ways; what is kept is fitted to all of it, with the error
and the interval of the halves that were left out. The timings of a machine are kept with its coefficients, and correct
the formula around them. 16-bit formats mostly run the same kernels, and are then fitted together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.families import Family, Hardware, base, formula, nearby, variants, wider
from ..core.machine import Fitted, Machine
from ..core.work import Kernel
from ..programs.cases import batches
from .expected import hardware, kernels
from .solve import solve

Vector = NDArray[np.float64]
LEAST = 12  # timings below which a group says too little
# coefficients that are one of a few
CHOICES: Mapping[str, tuple[float, ...]] = {"smallest": (32.0, 64.0, 128.0), "most": (2.0, 64.0)}
INTERVAL = (0.09, 0.91)  # a little more than the 80 % that are promised
FEW = 0.8  # a group of n timings gives up FEW / n of each tail, because its own quantiles are uncertain


@dataclass
class Group:
    """Timings of one family, op and format, as arrays."""

    key: str
    family: Family
    hardware: Hardware
    sizes: dict[str, list[Vector]] = field(default_factory=dict)
    times: list[Vector] = field(default_factory=list)

    def add(self, kernel: Kernel, times: Vector, chosen: NDArray[np.bool_]) -> None:
        for name, value in kernel.sizes.items():
            every = np.broadcast_to(np.asarray(value, dtype=np.float64), times.shape)
            self.sizes.setdefault(name, []).append(every[chosen])
        self.times.append(times[chosen])

    def arrays(self) -> tuple[dict[str, Vector], Vector]:
        return {name: np.concatenate(parts) for name, parts in self.sizes.items()}, np.concatenate(self.times)


def group(
    rows: Iterable[Mapping[str, Any]],
    machine: Machine,
    by_op: Callable[[Kernel], bool],
    whole: Collection[str] = (),
) -> dict[str, Group]:
    """Rows of op, sizes and `time_us` by the key their numbers are kept under; ops of several kernels are left out.

    `by_op` says which kernels are told apart by op; the families in `whole` are not told apart by variant.
    """
    listed = list(rows)
    cases, faults = batches(listed)
    for place, why in faults.items():
        raise InputError(f"row {place + 1}, {why}")
    found: dict[str, Group] = {}
    for batch in cases:
        backend = batch.labels.get("backend", "")
        work = batch.op(**batch.sizes, **batch.words)
        times = np.array([float(listed[place]["time_us"]) for place in batch.places]) * 1e-6
        own = kernels(work)
        if len(own) != 1:
            continue
        kernel = own[0]
        seen = hardware(machine, kernel)
        if seen is None:
            continue
        alone = kernel.family in whole
        every = [(kernel.family, kernel.op, 1.0)] if alone else variants(kernel.family, kernel.sizes, kernel.op)
        for name, told, here in every:
            middle = f"{told}." if told and by_op(kernel) else ""
            key = f"{name}.{middle}{kernel.dtype}" + (f"@{backend}" if backend else "")
            made = found.setdefault(key, Group(key, formula(name), seen))
            made.add(kernel, times, np.broadcast_to(np.asarray(here) > 0, times.shape))
    return found


def fit(
    made: Sequence[Group],
    source: str,
    optional: Sequence[str] = (),
    start: Mapping[str, float] | None = None,
    keep: bool = False,
) -> Fitted | None:
    """Coefficients for groups that share a formula (one, or the same kernels on several machines).

    `keep` keeps the timings too, to correct the formula by those nearby; they must then be of one machine.
    """
    told = [(one, *one.arrays()) for one in made]
    count = sum(len(times) for _, _, times in told)
    if count < LEAST:
        return None
    generator = np.random.default_rng(len(told[0][2]))
    halves = [generator.permutation(len(times)) % 2 == 0 for _, _, times in told]
    family = made[0].family
    ratios: list[Vector] = []
    for side in (False, True):
        train = [_cut(one, half == side) for one, half in zip(told, halves, strict=True)]
        judge = [_cut(one, half != side) for one, half in zip(told, halves, strict=True)]
        coefficients = _solve(family, train, optional, start)
        around = _around(family, train, coefficients) if keep else None
        ratios += [times / _expected(one, sizes, coefficients, around) for one, sizes, times in judge]
    whole = {name: rounded(value) for name, value in _solve(family, told, optional, start).items()}
    ratio = np.concatenate(ratios)
    error = np.abs(1 / ratio - 1)
    low, high = np.quantile(ratio, (max(INTERVAL[0] - FEW / count, 0.01), min(INTERVAL[1] + FEW / count, 0.99)))
    sizes = {name: np.concatenate([part[name] for _, part, _ in told]) for name in told[0][1]}
    return Fitted(
        coefficients=whole,
        error=rounded(float(np.median(error))),
        p90=rounded(float(np.quantile(error, 0.9))),
        low=rounded(float(min(low, 1.0))),
        high=rounded(float(max(high, 1.0))),
        cases=count,
        source=source,
        ranges={
            name: (rounded(values.min()), rounded(values.max()))
            for name, values in sizes.items()
            if values.min() > 0 and values.max() > values.min()
        },
        nearby=_around(family, told, whole).text() if keep else "",
    )


def _expected(
    one: Group, sizes: Mapping[str, Vector], coefficients: Mapping[str, float], around: nearby.Nearby | None
) -> Vector:
    """The formula's times, corrected by timings nearby where there are some."""
    time = np.asarray(one.family.time(sizes, one.hardware, coefficients))
    return time * np.exp(around.correction(sizes)) if around else time


def _around(family: Family, told: Sequence[Told], coefficients: Mapping[str, float]) -> nearby.Nearby:
    """The timings and what the formula misses of them."""
    ratios = [times / family.time(sizes, one.hardware, coefficients) for one, sizes, times in told]
    sizes = {name: np.concatenate([part[name] for _, part, _ in told]) for name in family.shape}
    return nearby.table(family.shape, sizes, np.concatenate(ratios))


def rounded(value: float) -> float:
    """Four digits: more than the timings tell."""
    return float(f"{value:.4g}")


Told = tuple[Group, dict[str, Vector], Vector]


def _cut(one: Told, chosen: NDArray[np.bool_]) -> Told:
    made, sizes, times = one
    return made, {name: values[chosen] for name, values in sizes.items()}, times[chosen]


def _solve(
    family: Family, told: Sequence[Told], optional: Sequence[str], start: Mapping[str, float] | None
) -> dict[str, float]:
    taken = {name: row for name, row in family.coefficients.items() if not row.optional or name in optional}
    free = {name: row for name, row in taken.items() if name not in CHOICES}
    chosen = [name for name in taken if name in CHOICES]
    measured = np.concatenate([times for _, _, times in told])
    best: tuple[float, dict[str, float]] | None = None
    for values in product(*(CHOICES[name] for name in chosen)):
        fixed = dict(zip(chosen, values, strict=True))

        def predict(given: dict[str, float], fixed: dict[str, float] = fixed) -> Vector:
            times = [family.time(sizes, one.hardware, {**given, **fixed}) for one, sizes, _ in told]
            return np.concatenate([np.asarray(time, dtype=np.float64) for time in times])

        found = {**solve(predict, measured, free, start), **fixed}
        off = np.abs(np.log(predict(found) / measured))
        value_of = float(np.mean(np.minimum(off, 0.5)))
        if best is None or value_of < best[0]:
            best = (value_of, found)
    assert best is not None
    return best[1]


def _better(known: Fitted | None, got: Fitted | None, groups: Sequence[Group]) -> Fitted | None:
    """What tells the timings best: numbers fitted to them, on halves left out, or those that were there before.

    A few timings of a machine that much is known of, or of kin of it, bring nothing new.
    """
    if known is None:
        return got
    around = nearby.read(known.nearby) if known.nearby else None
    told = [(one, *one.arrays()) for one in groups]
    ratios = [_expected(one, sizes, known.coefficients, around) / times for one, sizes, times in told]
    error = float(np.median(np.abs(np.concatenate(ratios) - 1)))
    return got if got is not None and got.error <= error else replace(known, borrowed=False)


# -- all families of a machine --------------------------------------------------------------------------------

HALVES = ("bf16", "fp16")
TOGETHER = ("attention", "moe", "transpose")  # families whose ops share their kernels


def _optional(family: str, dtype: str) -> tuple[str, ...]:
    """Effects that not all fits bring: the parts of a split k; layout changes of images; Winograd in fp32 alone."""
    if family != "conv":
        return ("parts",) if family == "gemm" else ()
    return ("winograd", "transform", "layout") if dtype == "fp32" else ("layout",)


def _format(name: str, dtype: str) -> str:
    """The format a group is fitted under: 16-bit formats share kernels, but for matrix products and grouped convolutions."""
    apart = base(name) == "gemm" or name.startswith("conv-grouped")
    return dtype if dtype not in HALVES or apart else HALVES[0]


def _by_op(kernel: Kernel) -> bool:
    return kernel.family not in TOGETHER


def fit_cases(
    cases: Iterable[Mapping[str, Any]], machine: Machine, source: str, tell: Callable[[str], None] | None = None
) -> dict[str, Fitted]:
    """Coefficients for everything the cases (op, sizes, `time_us`) speak of, with the error on halves left out.

    A family starts from what the machine already carries or borrows, and its groups from the family: few timings move
    few coefficients. What is carried or borrowed stays where it tells the timings better than what was fitted to them.
    """
    joined: dict[str, list[Group]] = {}
    pooled: dict[str, list[Group]] = {}  # what a group starts from: its family and format, ops and variants together
    for key, one in group(cases, machine, _by_op).items():
        whole, at, backend = key.partition("@")
        head, _, dtype = whole.rpartition(".")
        name = key.partition(".")[0]
        joined.setdefault(f"{head}.{_format(name, dtype)}{at}{backend}", []).append(one)
        pooled.setdefault(f"{base(name)}.{_format('', dtype)}{at}{backend}", []).append(one)
    found: dict[str, Fitted] = {}
    started: dict[str, Fitted | None] = {}
    for key, groups in sorted(joined.items()):
        family = base(key.partition(".")[0])
        whole, at, backend = key.partition("@")
        dtype = whole.rpartition(".")[2]
        pool = f"{family}.{_format('', dtype)}{at}{backend}"
        optional = _optional(family, dtype)
        if pool not in started:
            known = machine.fitted.get(pool)
            started[pool] = fit(pooled[pool], source, optional, known.coefficients if known else None)
        known = machine.fitted.get(key)
        start = known or started[pool]
        got = _better(known, fit(groups, source, optional, start.coefficients if start else None, keep=True), groups)
        if got is None:
            continue
        found[key] = got
        if tell:
            tell(f"{key}: {got.cases} timings, left-out halves told within {got.error:.1%} (P90 {got.p90:.1%})")
    # a variant that was not timed keeps what is known of it, before a wider one that was
    for key, row in machine.fitted.items():
        name, dot, rest = key.partition(".")
        if key not in found and any(wide + dot + rest in found for wide in list(wider(name))[1:]):
            found[key] = replace(row, borrowed=False)
    # ops and variants nobody timed take the numbers of their family, unless others lend finer ones
    lent = {base(key.partition(".")[0]) for key, row in machine.fitted.items() if row.borrowed}
    found |= {
        pool: row
        for pool, row in started.items()
        if row is not None and pool not in found and pool.partition(".")[0] not in lent
    }
    for key, row in list(found.items()):
        whole, at, backend = key.partition("@")
        other = f"{whole.removesuffix(HALVES[0])}{HALVES[1]}{at}{backend}"
        if whole.endswith(f".{HALVES[0]}") and other not in found:
            found[other] = row
    return found
