"""The alpha-beta line through the sizes of a collective, and which ranks and links are slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.statistics import median
from ...prediction.fit import linear

MIN_SHARE = 0.8  # of the median rank, or of the best link of its kind; below it a rank or link is a straggler


@dataclass(frozen=True)
class Line:
    """t = alpha + sent / beta, fitted to relative errors."""

    alpha: float
    beta: float
    error: float  # root mean square of the relative errors


def fit(sent: Sequence[float], times: Sequence[float]) -> Line | None:
    """Least squares of relative errors, so that small messages count as much as large ones."""
    if len(set(sent)) < 3:
        return None
    sizes = np.asarray(sent, dtype=np.float64)
    (alpha, slope), error = linear([np.ones_like(sizes), sizes], np.asarray(times, dtype=np.float64), relative=True)
    return Line(alpha, 1 / slope, error) if slope > 0 else None


def stragglers(rates: Sequence[float], names: Sequence[str], what: str) -> list[str]:
    """A sentence for each rank clearly slower than the median rank."""
    middle = median(rates)
    return [
        f"{name} is a straggler: its {what} is {rate / middle:.0%} of the median"
        for name, rate in zip(names, rates, strict=True)
        if rate < MIN_SHARE * middle
    ]


@dataclass(frozen=True)
class Link:
    """The way from one rank to the next; `within` one host or between two."""

    name: str
    within: bool
    bandwidth: float


def slow_links(links: Sequence[Link]) -> list[str]:
    """A sentence for each link clearly slower than the best of its kind, within a host or between hosts.

    Not the median: one slow host has two slow links, and of three that is the middle one.
    """
    best: dict[bool, float] = {}
    for link in links:
        best[link.within] = max(link.bandwidth, best.get(link.within, 0.0))
    kinds = {True: "within a host", False: "between hosts"}
    return [
        f"{link.name} is a straggler: its bandwidth is {link.bandwidth / best[link.within]:.0%} of the best {kinds[link.within]}"
        for link in links
        if link.bandwidth < MIN_SHARE * best[link.within]
    ]


def shared_gpus(hosts: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each GPU that several ranks use: their turns on it are not times of a link."""
    ranks: dict[str, list[str]] = {}
    for row in hosts:
        if row["gpu"]:
            ranks.setdefault(row["gpu"], []).append(str(row["rank"]))
    return [
        f"ranks {' and '.join(names)} share one GPU and take turns on it: the times are not those of a link between GPUs"
        for names in ranks.values()
        if len(names) > 1
    ]
