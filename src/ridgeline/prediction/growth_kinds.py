"""Kinds of figures that machines are compared by: the best kind of ceilings that all of them have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.errors import InputError
from ..core.figure import KINDS, Figure
from ..core.machine import Machine
from .ceilings import default_dtype


@dataclass(frozen=True)
class Kinds:
    """The kind of figures that growth is taken between; None where no kind is known of all machines."""

    peak: str | None
    bandwidth: str | None

    @property
    def text(self) -> str:
        """`stated figures of both`, `derived peaks and stated bandwidths of both`; empty without a kind of either."""
        if self.peak == self.bandwidth:
            return f"{self.peak} figures of both" if self.peak else ""
        known = [f"{kind} {name}" for kind, name in ((self.peak, "peaks"), (self.bandwidth, "bandwidths")) if kind]
        return f"{' and '.join(known)} of both"


def common_kinds(machines: Sequence[Machine], dtype: str | None = None, products: bool = True) -> Kinds:
    """The best kind of ceilings that all machines have, where possible of both figures.

    Growth is taken between figures of one kind: a machine that was measured must not look slower than one of which
    only the datasheet is known.
    """
    peaks, bandwidths = [], []
    for machine in machines:
        try:
            peaks.append(
                machine.peaks[machine.engine("matrix" if products else "vector", dtype or default_dtype(machine))]
            )
        except InputError:
            continue  # the comparison leaves it out, with a note
        bandwidths.append(machine.main.bandwidth)
    peak, bandwidth = ([kind for kind in KINDS if _all_have(figures, kind)] for figures in (peaks, bandwidths))
    both = [kind for kind in peak if kind in bandwidth]
    first = [kinds[0] if kinds else None for kinds in ((both, both) if both else (peak, bandwidth))]
    return Kinds(*first)


def _all_have(figures: Sequence[Figure], kind: str) -> bool:
    return bool(figures) and all(getattr(figure, kind) is not None for figure in figures)
