"""Coefficients of a machine brought up to date with its timings: only kernels of which there are more or fewer are fitted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ...core.families import Key, formula
from ...core.fitted import Fitted
from ...core.machine import Machine
from .families import (
    CHOICES,
    MAX_FITTED,
    MIN_TIMINGS,
    SAME_NUMBERS,
    SHARED_KERNELS,
    both_halves,
    fit,
    optional,
    renewed,
    together,
)
from .groups import Group, group, thinned

Tell = Callable[[str], None]


def update_cases(
    cases: Iterable[Mapping[str, Any]],
    machine: Machine,
    source: str,
    tell: Tell | None = None,
    every_kernel: bool = False,
    leave: Collection[Key] = (),
    keep_coefficients: bool = False,
) -> dict[Key, Fitted]:
    """Coefficients, correction, error and interval of every kernel whose number of timings changed since it was fitted.

    Coefficients are fitted again from where they are, and stay where that predicts held-out timings no better; kernels that
    have none start from the next wider ones. The same cases again change nothing, unless `every_kernel` is asked for, as after a
    change of a formula or of how intervals are made. Kernels to `leave` stay as they are. `keep_coefficients` makes only
    corrections, errors and intervals anew.
    """
    every = group(cases, machine, lambda kernel: kernel.family not in SHARED_KERNELS, SAME_NUMBERS)
    joined: dict[Key, list[Group]] = {}
    for key, timed in every.items():
        joined.setdefault(together(key), []).append(timed)
    few = MIN_TIMINGS.get(machine.kind, MIN_TIMINGS["gpu"])
    fitted: dict[Key, Fitted] = {}
    timed_here = {key: row for key, row in machine.fitted.items() if not row.borrowed}
    for key, groups in sorted(joined.items(), key=lambda item: str(item[0])):
        count, known = sum(map(len, groups)), timed_here.get(key)
        if key in leave or count < few or (known and known.cases == count and not every_kernel):
            continue
        wider = [timed_here[each] for each in key.wider() if each in timed_here]
        if known is None:
            new = _fitted(key, wider, groups, source, few)
        else:
            kept = renewed(known, groups, source)
            new = kept if keep_coefficients else _better(key, known, kept, groups)
        if new is not None:
            fitted[key] = new
            if tell:
                tell(f"{key}: {new.cases} timings, {new.errors}")
    return both_halves(fitted, every)


def _fitted(key: Key, wider: Sequence[Fitted], groups: Sequence[Group], source: str, few: int) -> Fitted | None:
    return fit(groups, source, optional(key), wider[0].coefficients if wider else None, True, few)


def _better(key: Key, known: Fitted, kept: Fitted, groups: Sequence[Group]) -> Fitted:
    """The coefficients that are there, or fitted again from them, whichever predicts held-out timings better."""
    names = formula(key).coefficients
    choice = {
        name: known.coefficients.get(name, 0.0)
        for name in CHOICES
        if name in names and (not names[name].optional or name in optional(key))
    }
    sample = thinned(groups, MAX_FITTED)  # which decides the coefficients; all timings give the correction
    again = fit(sample, kept.source, optional(key), known.coefficients, False, 1, choice)
    moved = renewed(again, groups, kept.source) if again else kept
    return min(kept, moved, key=lambda row: row.error * row.p90)
