"""Expected time of a collective: of the algorithms a library has for the links, the fastest.

    latency = start + hops x latency of a hop + messages x gap between messages
    V       = largest of bytes / (rate x efficiency), inside a node and over the network
    time    = latency + min(V / low, simple + V + 2 sqrt(piece V))

The two terms are the protocols of NCCL and RCCL: LL sends data with flags at a share `low` of the rate and starts at once,
Simple starts later and reaches the rate. Cut into pieces, of which the first one passes through all hops before the
others follow, V takes (sqrt(piece) + sqrt(V))^2 with the best size of pieces; LL128 lies between the two. Every
candidate grows with the bytes and falls with the rates, so the fastest one does too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .figure import BUS, MESH, NETWORK, PAIR, TORUS, Link
from .network import Group
from .work import Array

ALGORITHMS = ("ring", "tree", "in-network", "hierarchical", "direct")
FABRIC, HOST = "fabric", "host"  # kinds of links inside a node, by what serves them; the network is the third
PHASES = {"all_reduce": 2.0}  # passes over the ranks; one for every other collective


@dataclass(frozen=True)
class Path:
    """How a library does over one kind of link: seconds and shares, fitted to published timings."""

    latency: float
    gap: float
    low: float
    simple: float
    piece: float
    efficiency: float
    in_network: float

    @staticmethod
    def kind(link: Link) -> str:
        return NETWORK if link.topology == NETWORK else HOST if link.topology in (BUS, "") else FABRIC

    def of(self, link: Link) -> Path:
        """With the figures that the machine's own file gives."""
        given = {"latency": link.latency, "efficiency": link.efficiency, "in_network": link.in_network}
        values = {name: figure.value() for name, figure in given.items()}
        return Path(**{**vars(self), **{name: value for name, value in values.items() if value is not None}})


@dataclass(frozen=True)
class Algorithm:
    """One way to do a collective: hops that follow one another, messages, and bytes inside a node and over its network."""

    name: str
    hops: Array
    inner_bytes: Array
    network_hops: Array = 0.0
    network_bytes: Array = 0.0
    messages: Array = 0.0
    network_messages: Array = 0.0
    adds_in_switch: bool = False


@dataclass(frozen=True)
class Times:
    """Seconds of a collective, what of them is latency and the start of the protocol, and the place of the algorithm in ALGORITHMS."""

    time: NDArray[np.float64]
    latency: NDArray[np.float64]
    algorithm: NDArray[np.int64]


def expected(
    op: str, size: Array, group: Group, rates: Mapping[str, float], paths: Mapping[str, Path], start: float
) -> Times:
    """Of the algorithms for a group of ranks, case by case the fastest."""
    made = [
        (algorithm.name, *_time(algorithm, group, rates, paths, start)) for algorithm in algorithms(op, size, group)
    ]
    times, latencies = (np.stack([row[place] for row in made]) for place in (1, 2))
    fastest = np.argmin(times, axis=0)[np.newaxis]
    time, latency = (np.take_along_axis(values, fastest, axis=0)[0] for values in (times, latencies))
    return Times(time, latency, np.array([ALGORITHMS.index(name) for name, *_ in made])[fastest[0]])


def _time(
    algorithm: Algorithm, group: Group, rates: Mapping[str, float], paths: Mapping[str, Path], start: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    inner = paths[Path.kind(group.inner)].of(group.inner)
    share = inner.in_network if algorithm.adds_in_switch else inner.efficiency
    moving = algorithm.inner_bytes / (rates[group.inner.name] * share)
    latency = start + algorithm.hops * inner.latency + algorithm.messages * inner.gap
    slowest = inner
    if group.network is not None:
        slowest = paths[NETWORK].of(group.network)
        over = algorithm.network_bytes / (rates[group.network.name] * slowest.efficiency)
        moving = np.maximum(moving, over)
        latency = latency + algorithm.network_hops * slowest.latency + algorithm.network_messages * slowest.gap
    started = latency + slowest.simple
    time = started + moving + 2 * np.sqrt(slowest.piece * moving)
    if not algorithm.adds_in_switch:
        sooner = latency + moving / slowest.low
        started, time = np.where(sooner < time, latency, started), np.minimum(time, sooner)
    latency = started
    shape = np.broadcast_shapes(np.shape(time), np.shape(group.ranks))
    return np.broadcast_to(time, shape), np.broadcast_to(latency, shape)


def algorithms(op: str, size: Array, group: Group) -> Iterator[Algorithm]:
    """What libraries have for a collective on these links."""
    if op in ("all_to_all", "p2p"):
        yield _direct(op, size, group)
        return
    yield _ring(op, size, group)
    if group.network is not None and op == "all_reduce":
        yield from _trees(size, group)
    alone = (
        group.inner.topology == NETWORK
    )  # one rank in every node: the switches of a network add only where a plugin asks them to
    if alone and op == "all_reduce":
        ranks = group.ranks
        yield Algorithm("tree", 2 * np.ceil(np.log2(ranks)), size * 2 * (ranks - 1) / ranks)
    if group.network is None and op == "all_reduce" and group.inner.reduces and not alone:
        # a rank sends all it has and, of the sums, its own part
        yield Algorithm("in-network", 2.0, size * (group.ranks + 1) / group.ranks, adds_in_switch=True)
    if group.network is None and group.inner.topology in (MESH, PAIR) and op != "broadcast":
        phases, others = PHASES.get(op, 1.0), group.ranks - 1
        moved = size * phases * others / group.ranks / group.share
        yield Algorithm("direct", phases, moved, messages=phases * others)


def _ring(op: str, size: Array, group: Group) -> Algorithm:
    """Every rank passes on to the next; over the network there are as many rings as the thinnest node has network cards."""
    ranks, nodes, phases = group.ranks, group.nodes, PHASES.get(op, 1.0)
    part = 1.0 if op == "broadcast" else (ranks - 1) / ranks
    between = phases * (nodes - 1)
    hops = phases * (ranks - 1) - between
    if group.inner.topology == TORUS and group.inner.dimensions:  # rings along every side, both ways round
        side = ranks ** (1 / group.inner.dimensions)
        hops = phases * group.inner.dimensions * np.maximum(side / 2, 1.0)
    moved = size * phases * part
    return Algorithm("ring", hops, moved / group.share, between, moved / group.thinnest)


def _trees(size: Array, group: Group) -> Iterator[Algorithm]:
    """Chains inside the nodes, or sums in their switches, and two trees over the nodes that halve the load."""
    most, least, nodes = group.fullest, group.thinnest, group.nodes
    between = 2 * np.ceil(np.log2(nodes))
    over = size * 2 * (nodes - 1) / nodes / least
    yield Algorithm("tree", 2 * (most - 1), size * 2 * (most - 1) / most / group.share, between, over)
    if group.inner.reduces:
        moved = size * (least + 1) / least / group.share
        yield Algorithm("hierarchical", 2.0, moved, between, over, adds_in_switch=True)


def _direct(op: str, size: Array, group: Group) -> Algorithm:
    """Every rank sends to every other, or one to one, by itself."""
    ranks, most, nodes = group.ranks, group.fullest, group.nodes
    if op == "p2p":
        far = np.where(nodes > 1, 1.0, 0.0)
        return Algorithm("direct", 1.0, size / group.to_peer * (1 - far), far, size * far)
    moved = size * (most - 1) / ranks * group.distance / group.share_of(np.maximum(most, 2.0))
    away = ranks - group.thinnest  # a rank of the thinnest node sends most over its network card
    return Algorithm(
        "direct", np.ones_like(ranks), moved, np.where(away > 0, 1.0, 0.0), size * away / ranks, most - 1, away
    )
