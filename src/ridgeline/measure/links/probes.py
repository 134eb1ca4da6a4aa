"""Collectives between the ranks of a job over many sizes, latency and bandwidth fitted, slow ranks named.

    time = alpha + sent / beta        sent: bytes per rank and direction of the ring algorithm, so beta is bus bandwidth

Runs in every rank under `torchrun`, on gloo between CPUs or nccl between GPUs; the slowest rank counts. Rank 0 gets the
observations, the others an empty list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import InputError, RidgelineError, first_line
from ...core.observation import Observation
from ...core.statistics import median
from ...core.units import percent
from ...core.version import __version__
from ...core.work import LINK, WRITE, Work
from ...prediction.fit import linear
from ..conditions import noise_note, now
from ..protocol import REAL, Clock, Progress
from .ranks import SENT, Group, Link, Point, join, leave, local, ring_links

KIB, MIB = 1 << 10, 1 << 20
TIMING = "host clock around calls that begin at a barrier; the slowest rank counts"
FIT = "t = alpha + sent / beta over these sizes, least squares of relative errors"
MIN_SHARE = 0.8  # of the median rank, or of the best link of its kind; below it a rank or link is a straggler


def sizes(backend: str, quick: bool) -> list[int]:
    smallest, brief, full = (8 * KIB, 256 * MIB, 1024 * MIB) if backend == "nccl" else (KIB, 4 * MIB, 64 * MIB)
    points, largest = [smallest], brief if quick else full
    while points[-1] * (factor := 16 if quick else 4) <= largest:
        points.append(points[-1] * factor)
    return points


def measure(quick: bool = False, clock: Clock = REAL, on_progress: Progress | None = None) -> list[Observation]:
    """Collectives between the ranks of this job. What a backend lacks, or a lost rank, is named under `gaps`."""
    group = join(clock)
    gaps: list[str] = []
    points: list[Point] = []
    facts: dict[str, Any] = {"ranks": group.ranks, "backend": group.backend, "data": "standard normal, fp32"}
    facts |= {"versions": {"torch": str(group.torch.__version__), "numpy": np.__version__}, "date": now()}
    notes: list[str] = list(group.notes)
    try:
        notes += describe(group, facts)
        points = plan(group, quick, gaps)
        run(group, points, 5 if quick else 10, on_progress)
    except KeyboardInterrupt:
        gaps.append("stopped by Ctrl-C: what was sampled until then is kept")
    except RidgelineError:
        raise
    except RuntimeError as error:
        gaps.append(f"a rank was lost or did not answer: {first_line(error)}")
    else:
        leave(group)
    results = observations(group, [point for point in points if point.samples], {**facts, "gaps": gaps}, notes)
    if group.rank == 0 and not results:
        raise InputError(f"no collective could be measured: {'; '.join(gaps) or 'no points'}")
    return results if group.rank == 0 else []


def describe(group: Group, facts: dict[str, Any]) -> list[str]:
    """Adds the hosts, the links and the stragglers to the facts; notes about slow or shared ones."""
    hosts = facts["hosts"] = group.gather_objects(local(group))
    names = [f"rank {row['rank']} on {row['host']}" for row in hosts]
    links = ring_links(group, hosts, MIB, 5)
    facts["links"] = [{"link": link.name, "within_host": link.within, "bandwidth": link.bandwidth} for link in links]
    slow = stragglers([row["copy"] for row in hosts], names, "own copy bandwidth")
    slow += stragglers([row["product"] for row in hosts], names, "own matrix product")
    slow += slow_links(links)
    facts["stragglers"] = slow
    return [*shared_gpus(hosts), *slow]


def plan(group: Group, quick: bool, gaps: list[str]) -> list[Point]:
    """Every collective at every size, tried and calibrated; one the backend does not have becomes a gap."""
    points: list[Point] = []
    for op in SENT:
        try:
            for size in sizes(group.backend, quick):
                point = Point(group, op, size)
                point.check()
                point.calibrate(0.004 if quick else 0.01)
                points.append(point)
        except (RuntimeError, NotImplementedError, ValueError) as error:
            if isinstance(error, RidgelineError):
                raise
            gaps.append(f"{op}: {group.backend} has none here ({first_line(error)})")
            points = [point for point in points if point.op != op]
    return points


def run(group: Group, points: Sequence[Point], rounds: int, on_progress: Progress | None) -> None:
    for turn in range(rounds):
        for place, point in enumerate(points):
            if on_progress and group.rank == 0:
                on_progress(turn * len(points) + place, rounds * len(points), f"{point.op} {point.bytes} B")
            point.sample()
    for point in points:
        point.check()


def observations(
    group: Group, points: Sequence[Point], conditions: dict[str, Any], notes: Sequence[str]
) -> list[Observation]:
    """One per collective and size, and one per collective with the line fitted through its sizes."""
    results = [_point(group, point, conditions, notes) for point in points]
    for op in dict.fromkeys(point.op for point in points):
        line = _line(group, op, [point for point in points if point.op == op], conditions, notes)
        results += [line] if line else []
    return results


def _point(group: Group, point: Point, conditions: dict[str, Any], notes: Sequence[str]) -> Observation:
    seconds = median(point.samples)
    settings: dict[str, Any] = {"op": point.op, "bytes": point.bytes, "ranks": group.ranks, "backend": group.backend}
    settings |= {"dtype": "fp32", "bus_bandwidth": point.sent / seconds, "algorithm_bandwidth": point.bytes / seconds}
    settings |= {"loops": point.loops, "slowest_rank": point.slowest, "timing": TIMING}
    noise = noise_note(point.samples)
    work = Work(moves={(LINK, "buffer", WRITE): point.sent}, name=point.op, dtype="fp32")
    return Observation(
        f"{point.op} {point.bytes} B", f"collective.{point.op}", tuple(point.samples), work, settings, conditions,
        "ridgeline", __version__, (*notes, noise) if noise else tuple(notes),
    )  # fmt: skip


def _line(
    group: Group, op: str, points: Sequence[Point], conditions: dict[str, Any], notes: Sequence[str]
) -> Observation | None:
    medians = [median(point.samples) for point in points]
    line = fit([point.sent for point in points], medians)
    if line is None:
        return None
    settings: dict[str, Any] = {"op": op, "ranks": group.ranks, "backend": group.backend}
    settings |= {"alpha": line.alpha, "beta": line.beta, "residual_relative": line.error}
    settings |= {"bytes": [point.bytes for point in points], "fit": FIT}
    return Observation(
        f"{op} alpha beta", f"collective.{op}", tuple(medians), Work(), settings, conditions, "ridgeline",
        __version__, tuple(notes),
    )  # fmt: skip


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
        f"{name} is a straggler: its {what} is {percent(rate / middle)} of the median"
        for name, rate in zip(names, rates, strict=True)
        if rate < MIN_SHARE * middle
    ]


def slow_links(links: Sequence[Link]) -> list[str]:
    """A sentence for each link clearly slower than the best of its kind, within a host or between hosts.

    Not the median: one slow host has two slow links, and of three that is the middle one.
    """
    best: dict[bool, float] = {}
    for link in links:
        best[link.within] = max(link.bandwidth, best.get(link.within, 0.0))
    kinds = {True: "within a host", False: "between hosts"}
    return [
        f"{link.name} is a straggler: its bandwidth is {percent(link.bandwidth / best[link.within])} of the best {kinds[link.within]}"
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
