"""Timed cases of a GPU to the coefficients it carries: which kernels are told apart, which formats share theirs.

16-bit formats run the same kernels outside matrix products, so their timings are fitted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import fitting
from .families import base
from .machine import Fitted, Machine
from .work import Kernel

HALVES = ("bf16", "fp16")
TOGETHER = ("attention", "moe", "transpose")  # families whose ops share their kernels


def _optional(family: str, dtype: str) -> tuple[str, ...]:
    """Effects that not all kernels of a family show: layout changes of images; Winograd in fp32 alone."""
    if family != "conv":
        return ()
    return ("winograd", "transform", "layout") if dtype == "fp32" else ("layout",)


def _format(name: str, dtype: str) -> str:
    """The format a group is fitted under: 16-bit formats share kernels, but for matrix products."""
    return HALVES[0] if dtype in HALVES and base(name) != "gemm" else dtype


def _by_op(kernel: Kernel) -> bool:
    return kernel.family not in TOGETHER


def fit_cases(
    cases: Iterable[Mapping[str, Any]], machine: Machine, source: str, tell: Callable[[str], None] | None = None
) -> dict[str, Fitted]:
    """Coefficients for everything the cases (op, sizes, `time_us`) speak of, with the error on halves left out.

    A family starts from what the machine already carries or borrows, and its groups from the family: few timings move
    few coefficients.
    """
    joined: dict[str, list[fitting.Group]] = {}
    pooled: dict[
        str, list[fitting.Group]
    ] = {}  # what a group starts from: its family and format, ops and variants together
    for key, group in fitting.group(cases, machine, _by_op).items():
        whole, at, backend = key.partition("@")
        head, _, dtype = whole.rpartition(".")
        name = key.partition(".")[0]
        joined.setdefault(f"{head}.{_format(name, dtype)}{at}{backend}", []).append(group)
        pooled.setdefault(f"{base(name)}.{_format('', dtype)}{at}{backend}", []).append(group)
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
            started[pool] = fitting.fit(pooled[pool], source, optional, known.coefficients if known else None)
        start = machine.fitted.get(key) or started[pool]
        got = fitting.fit(groups, source, optional, start.coefficients if start else None)
        if got is None:
            continue
        found[key] = got
        if tell:
            tell(f"{key}: {got.cases} timings, left-out halves told within {got.error:.1%} (P90 {got.p90:.1%})")
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
