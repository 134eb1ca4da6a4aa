"""What machines without timings borrow, fitted to the timings of others: by architecture, library and format.

Every architecture lends twice: to machines of its own (`within`), with the error on one of its GPUs when that one is
left out, and to all others (`beyond`), with the error on GPUs of other architectures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ridgeline.core.families import Key
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.statistics import Errors
from ridgeline.machines import load as machines
from ridgeline.machines.power import base
from ridgeline.machines.transfer import BEYOND, SHARES, WITHIN, Move, lender_scale, library, sources
from ridgeline.prediction import fit as fitting
from ridgeline.prediction.fit.families import _choice, _coefficients
from ridgeline.prediction.fit.intervals import INTERVAL

FIT_ROWS = 300  # timings of a group that are fitted to
ERROR_ROWS = 1500  # and those that the errors are taken from
MIN_ROWS = 100  # timings from which an architecture lends a row: fewer do not show both launch and rate
OTHER_FORMAT = 1.5  # widening of the interval's logarithm where only another format was timed on two architectures
LONG = {"fp32": 1e-4, "": 2e-5}  # seconds above which the kernel decides, not the launch; fp32 was timed from the host
UNKNOWN = {"error": 0.3, "p90": 0.8, "low": 0.6, "high": 2.0}  # of a family only one machine was timed for
Ends = dict[tuple[str, Key], Mapping[str, float]]  # errors and interval by table and key
Ratios = dict[tuple[str, Key], list[Any]]  # predicted over measured times by table and key


def physical(timed: fitting.Group) -> fitting.Group:
    """With shares of ceilings that are at most 1 in the fit."""
    rows = timed.family.coefficients
    rows = {name: replace(row, high=min(row.high, 1.0)) if name in SHARES else row for name, row in rows.items()}
    return replace(timed, family=replace(timed.family, coefficients=rows))


def some(timed: fitting.Group, count: int, seed: int = 0) -> fitting.Group:
    """At most this many of the timings, the same ones every time."""
    if len(timed) <= count:
        return timed
    chosen = np.zeros(len(timed), dtype=bool)
    chosen[np.random.default_rng(seed).permutation(len(timed))[:count]] = True
    return timed.part(chosen)


@dataclass(frozen=True)
class Lender:
    """The timed GPUs of one architecture."""

    architecture: str
    groups: Mapping[str, Mapping[Key, list[fitting.Group]]]  # by machine; by library, and all libraries together
    optional: Any  # which optional coefficients a key has

    @property
    def keys(self) -> list[Key]:
        return sorted({key for by_key in self.groups.values() for key in by_key}, key=str)

    def members(self, key: Key, without: str = "") -> dict[str, list[fitting.Group]]:
        found = {name: by_key[key] for name, by_key in self.groups.items() if key in by_key and name != without}
        return found if sum(len(timed) for groups in found.values() for timed in groups) >= MIN_ROWS else {}

    def training(self, key: Key, without: str = "") -> list[fitting.Group]:
        """Timings to fit to: as many of every machine and library."""
        return [some(timed, FIT_ROWS) for groups in self.members(key, without).values() for timed in groups]

    @cached_property
    def _left_out(self) -> dict[tuple[Key, str], dict[str, float]]:
        return {}

    def coefficients(self, key: Key, without: str = "") -> dict[str, float] | None:
        """Fitted to all machines together but one; None where nothing is left."""
        without = without if without in self.members(key) else ""
        at = (key, without)
        if at not in self._left_out:
            groups = self.training(key, without)
            self._left_out[at] = fitted_together(groups, self.optional(key)) if groups else {}
        return self._left_out[at] or None


def fitted_together(groups: list[fitting.Group], optional: tuple[str, ...]) -> dict[str, float]:
    return _coefficients(groups, optional, None, _choice(groups, optional, None))


def predicted(timed: fitting.Group, key: Key, row: Fitted, lender: str, machine: Machine) -> Any:
    """Seconds with the coefficients of a lender, as a machine borrows them."""
    values = dict(Move.between(lender, machine).adapted(key, row).coefficients)
    for name, factor in lender_scale(machine, key.dtypes[0]).items():
        if name in values:
            values[name] = min(values[name] * factor, 1.0)
    return timed.formula_times(values)


def blank(coefficients: Mapping[str, float]) -> Fitted:
    """A row before its errors are known."""
    return Fitted(coefficients, **UNKNOWN, cases=MIN_ROWS, source="")


def ranges(groups: Iterable[fitting.Group]) -> dict[str, tuple[float, float]]:
    """Of the sizes that vary."""
    sizes: dict[str, list[Any]] = {}
    for timed in groups:
        for name, values in timed.sizes.items():
            sizes.setdefault(name, []).append(values)
    ends = {name: (float(np.min(np.concatenate(v))), float(np.max(np.concatenate(v)))) for name, v in sizes.items()}
    return {name: (low, high) for name, (low, high) in ends.items() if 0 < low < high}


def lenders_of(machine: Machine, key: Key, lenders: Mapping[str, Lender]) -> Iterable[tuple[str, Lender, bool]]:
    """The tables that have a key when the machine itself is left out, best first, and whether it is the best."""
    best = True
    for table in sources(machine.architecture):
        lender = lenders.get(table.rpartition(" ")[2])
        if lender and lender.members(key, machine.name):
            yield table, lender, best
            best = False


def left_out_ratios(lenders: Mapping[str, Lender]) -> Ratios:
    """Predicted over measured time of every machine, from its best lender; from others where a table has none else."""
    ratios: Ratios = {}
    spare: Ratios = {}
    for owner in lenders.values():
        for name, by_key in owner.groups.items():
            machine = machines.load(name)
            for key, groups in by_key.items():
                for table, lender, best in lenders_of(machine, key, lenders):
                    values = lender.coefficients(key, name)
                    if values is None or not (best or base(machine.architecture) != lender.architecture):
                        continue
                    into = ratios if best else spare
                    for timed in (some(timed, ERROR_ROWS, 1) for timed in groups):
                        ratio = predicted(timed, key, blank(values), lender.architecture, machine) / timed.times
                        # kernels that decide their time count twice, since most of the timings are of short ones
                        long = timed.times > (LONG["fp32"] if key.dtype == "fp32" else LONG[""])
                        ratio = np.concatenate([ratio, ratio[long]])
                        # a lender that is nobody's best says how far machines differ, not which of them is slower
                        both = ratio if best else np.concatenate([ratio, 1 / ratio])
                        into.setdefault((table, key), []).append(both)
    ratios = {**spare, **ratios}
    pooled: Ratios = {}  # for a row that serves all ops of a family that was timed op by op
    for (table, key), parts in ratios.items():
        pooled.setdefault((table, key._replace(op="")), []).extend(parts)
    return {**pooled, **ratios}


def ends_of(ratios: Any, widening: float = 1.0) -> dict[str, float]:
    """Errors and interval of predicted over measured times."""
    errors = Errors.of(ratios, np.ones_like(ratios))
    low, high = np.quantile(1 / ratios, INTERVAL) ** widening
    return {"error": errors.median, "p90": errors.p90, "low": min(low, 1.0), "high": max(high, 1.0)}


def known_ends(tables: Collection[str], key: Key, dtypes: Iterable[str], ratios: Ratios) -> dict[str, float]:
    """Errors of the first of ever wider keys that some tables have, those of another format widened; empty without any."""
    for dtype in dict.fromkeys(dtypes):
        for path in dict.fromkeys((key.backend, "")):
            for wider in key._replace(dtype=dtype, backend=path).wider():
                parts = [part for table in tables for part in ratios.get((table, wider), ())]
                if parts:
                    return ends_of(np.concatenate(parts), 1.0 if dtype == key.dtype else OTHER_FORMAT)
    return {}


def ends_for(table: str, key: Key, ratios: Ratios) -> dict[str, float]:
    """Errors and interval of a row for those who borrow it: those of machines that were left out.

    Where no other architecture was timed in a format, the error is that of another format, and at least the one within
    the architecture; where an architecture has one GPU only, it is the error beyond.
    """
    kind, _, architecture = table.partition(" ")
    beyond = sorted({at for at, _ in ratios if at.startswith(BEYOND)})
    formats = (key.dtype, key.dtypes[0], "bf16", "fp32")
    known = known_ends((table,), key, formats[:1], ratios)
    if known:
        return known
    if kind == WITHIN:
        return (
            known_ends((f"{BEYOND} {architecture}",), key, formats, ratios)
            or known_ends(beyond, key, formats, ratios)
            or UNKNOWN
        )
    other = known_ends((table,), key, formats, ratios) or known_ends(beyond, key, formats, ratios)
    every = [ends for ends in (other, known_ends((f"{WITHIN} {architecture}",), key, formats[:1], ratios)) if ends]
    return (
        {name: (min if name == "low" else max)(ends[name] for ends in every) for name in UNKNOWN} if every else UNKNOWN
    )


def with_errors(row: Fitted, ends: Mapping[str, float]) -> Fitted:
    return replace(row, **{name: fitting.rounded(float(value)) for name, value in ends.items()})


def timed_here(key: Key) -> bool:
    """Whether ridgeline timed the path itself: the default one, and backends of PyTorch, which have no version."""
    return key.backend == library(key.backend)


def own_rows(fitted: Mapping[Key, Fitted], name: str) -> dict[Key, Fitted]:
    """Paths that ridgeline timed itself, without the timings, which are about that machine alone."""
    return {
        key: replace(row, source=f"{name}: {row.source}", nearby="") for key, row in fitted.items() if timed_here(key)
    }


def tables_without(lenders: Mapping[str, Lender], ends: Ends, name: str) -> dict[str, dict[Key, Fitted]]:
    """The tables as they would be if a machine had never been timed."""
    made: dict[str, dict[Key, Fitted]] = {}
    for lender in lenders.values():
        for kind in (WITHIN, BEYOND):
            table = f"{kind} {lender.architecture}"
            rows = made[table] = {}
            for key in lender.keys:
                values = lender.coefficients(key, name)
                if values is not None and lender.members(key, name):
                    rows[key] = with_errors(blank(values), ends[table, key])
    return made


def all_ends(lenders: Mapping[str, Lender], ratios: Ratios) -> Ends:
    """Errors and interval of every row that is lent."""
    tables = [(f"{kind} {lender.architecture}", lender) for lender in lenders.values() for kind in (WITHIN, BEYOND)]
    return {(table, key): ends_for(table, key, ratios) for table, lender in tables for key in lender.keys}
