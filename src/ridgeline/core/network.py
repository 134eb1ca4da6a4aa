"""Collectives between devices: the links they cross, and the bytes over each that no algorithm can do without.

    N ranks of S bytes    R  rate of a device inside its node, one way    share  of R that the r ranks of a node can use
    M nodes               Q  rate of its network card, one way            q      ranks, and cards, of the thinnest node

    one node      time >= out S / (share R)
    more          time >= out S / (share R + Q)    and    time >= over S / Q

`out` is what a rank must send or take in, `over` what its network card must; where nodes differ, `share` is that of the
thinnest. A rank sends each element of an all-reduce at least once, as its own contribution or as the sum; where no
switch adds, all ranks together send it 2 (N-1) times, and all nodes 2 (M-1) times, which they may divide by their rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from .cached import cached_property
from .combining import COLLECTIVE
from .errors import MissingFigure
from .figure import BUS, MESH, NETWORK, TORUS, Link
from .machine import Machine
from .work import Array, Kernel, Work

FAMILY = COLLECTIVE
MAX_LISTED_NODES = 4  # whose ranks are listed one by one


def collectives(work: Work) -> tuple[Kernel, ...]:
    return tuple(kernel for kernel in work.kernels if kernel.family == FAMILY)


@dataclass(frozen=True)
class Group:
    """The cases whose ranks use one link inside a node; those of more than one node also the network."""

    inner: Link
    network: Link | None
    ranks: NDArray[np.float64]
    applies: NDArray[np.bool_]

    @cached_property
    def nodes(self) -> NDArray[np.float64]:
        size = self.inner.reach if self.network is not None else inf
        return np.ceil(self.ranks / size).clip(min=1.0)

    @property
    def fullest(self) -> NDArray[np.float64]:
        """Ranks of the node with most, where they are spread as evenly as whole ranks allow."""
        return np.ceil(self.ranks / self.nodes)

    @property
    def thinnest(self) -> NDArray[np.float64]:
        """Ranks, and so network cards, of the node with least."""
        return np.floor(self.ranks / self.nodes)

    @property
    def to_peer(self) -> float:
        """Of the rate of all links of a device, that of the links to one other device, at most.

        A mesh has as many links to every other one, a torus to its neighbours: two along every side, which are one
        where the torus is two devices long. Links are whole: of four to three neighbours, two may lead to one of them.
        """
        link = self.inner
        if link.topology == MESH:
            neighbours = max(link.devices - 1, 1)
        elif link.topology == TORUS:
            sides = link.dimensions or 1  # a torus of unstated dimensions is taken as a ring
            neighbours = max(min(sides if link.devices <= 2**sides else 2 * sides, link.devices - 1), 1)
        else:
            return 1.0
        return min(ceil(link.links / neighbours) / link.links, 1.0) if link.links else 1 / neighbours

    def share_of(self, ranks: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the rate of all links of a device that so many ranks of a node can use; a single one has no peer there."""
        return np.minimum((ranks - 1) * self.to_peer, 1.0)

    @property
    def share(self) -> NDArray[np.float64]:
        """That of the node with least ranks; what is sent inside a node has a peer there."""
        return self.share_of(np.maximum(self.thinnest, 2.0))

    @property
    def distance(self) -> NDArray[np.float64]:
        """Hops between two ranks of a torus, at least, on average; 1 where every rank is a neighbour."""
        if self.inner.topology != TORUS or not self.inner.dimensions:
            return np.ones_like(self.ranks)
        # a ring of k has (k - 1/k) / 4 on average; equal sides are the shortest for a given number of ranks
        hops = self.inner.dimensions * np.sinh(np.log(self.ranks) / self.inner.dimensions) / 2
        return np.maximum(hops * self.ranks / (self.ranks - 1), 1.0)

    def peer_note(self) -> str:
        """Which links lead from one rank to another, where others lead elsewhere."""
        if self.to_peer == 1 or not np.any(self.applies & (self.nodes == 1)):
            return ""
        count = self.inner.links
        part = f"{self.to_peer * count:.0f} of {count}" if count else f"{100 * self.to_peer:.0f} % of all"
        return f"p2p uses the links of {self.inner.name} that lead to one peer: {part}"

    def note(self, machine: str) -> str:
        """What is assumed: of a fabric whose reach the file does not state, and of ranks that do not fill nodes evenly."""
        if not self.inner.devices and self.inner.topology:
            return (
                f"how many devices {self.inner.name} of {machine} joins is not stated: all ranks are taken to be on it"
            )
        uneven = np.flatnonzero(self.applies & (self.fullest > self.thinnest))
        if not uneven.size:
            return ""
        return (
            f"{'' if uneven.size == 1 else 'ranks are spread evenly over nodes, such as '}{self._placement(uneven[0])}"
        )

    def _placement(self, case: np.intp) -> str:
        """`9 ranks as 5 + 4 on 2 nodes`, `33 ranks as 3 nodes of 7 and 2 of 6`."""
        ranks, nodes, most, least = (
            int(np.ravel(value)[case]) for value in (self.ranks, self.nodes, self.fullest, self.thinnest)
        )
        full = ranks - nodes * least
        if nodes <= MAX_LISTED_NODES:
            spread = " + ".join(map(str, [most] * full + [least] * (nodes - full)))
            return f"{ranks} ranks as {spread} on {nodes} nodes"
        return f"{ranks} ranks as {full} {'node' if full == 1 else 'nodes'} of {most} and {nodes - full} of {least}"


def groups(machine: Machine, ranks: Array) -> list[Group]:
    """The links that so many ranks of a machine use: the first that joins them all, else a node of the largest and the network."""
    count = np.asarray(ranks, dtype=np.float64)
    inner = [link for link in machine.links if link.topology != NETWORK and not _to_devices(machine, link)]
    network = next((link for link in machine.links if link.topology == NETWORK), None)
    if not inner:
        if network is None and machine.links:
            where = machine.file or "its machine file"
            joined = f"{machine.links[0].name} goes to devices and joins no CPUs"
            raise MissingFigure(f"{machine.name} has no link to other CPUs: {joined}; add a [[link]] to {where}.")
        inner, network = [network or machine.link()], None
    made, left = [], np.ones(count.shape, dtype=np.bool_)
    for link in inner:
        fits = left & (count <= (link.reach or inf))
        if fits.any():
            made.append(Group(link, None, count, fits))
            left &= ~fits
    if left.any():
        largest = max(inner, key=lambda link: link.reach)
        if network is None:
            most = f"{largest.devices} over {largest.name}"
            spread = f" that are {largest.apart} devices apart" if largest.apart > 1 else ""
            asked = f"{np.max(count):.0f} ranks{spread} are more than the links of {machine.name} join ({most})"
            where = machine.file or "its machine file"
            raise MissingFigure(f"{asked}, and it has no network card; add a [[link]] of topology network to {where}.")
        made.append(Group(largest, network, count, left))
    return made


def _to_devices(machine: Machine, link: Link) -> bool:
    """Whether a link of a CPU is its PCIe, whose other end is a card and no CPU."""
    return machine.kind == "cpu" and link.topology == BUS


def sent(op: str, ranks: Array, reduces: bool) -> Array:
    """Share of the buffer that a rank must send; with sums made in a switch, each element once."""
    if op in ("broadcast", "p2p") or (op == "all_reduce" and reduces):
        return np.ones_like(ranks)
    return (2 if op == "all_reduce" else 1) * (ranks - 1) / ranks


def least_bytes(kernel: Kernel, machine: Machine, rates: Mapping[str, float]) -> dict[str, Array]:
    """Bytes over each link that a collective takes at least; over the rate of the link they give its least time."""
    size = kernel.sizes["bytes"]
    least: dict[str, Array] = {}
    for group in groups(machine, kernel.sizes["ranks"]):
        inner, network, op = group.inner, group.network, kernel.op
        if network is None:
            inside = sent(op, group.ranks, inner.reduces) * (group.distance if op == "all_to_all" else 1.0)
            inside = inside / (group.to_peer if op == "p2p" else group.share)
        else:
            inside, over = _over_nodes(op, group, network, rates[inner.name], rates[network.name])
            least[network.name] = least.get(network.name, 0.0) + np.where(group.applies, size * over, 0.0)
        least[inner.name] = least.get(inner.name, 0.0) + np.where(group.applies, size * inside, 0.0)
    return least


def _over_nodes(op: str, group: Group, network: Link, rate: float, card: float) -> tuple[Array, Array]:
    """Shares of the buffer over the links of a node and over a network card, of ranks on more than one node."""
    ranks, nodes, most, least = group.ranks, group.nodes, group.fullest, group.thinnest
    if op == "p2p":  # from one card to another
        return np.zeros_like(ranks), np.ones_like(ranks)
    slowest = rate * group.share_of(least) + card
    out = sent(op, ranks, group.inner.reduces or network.reduces) / slowest
    leaving = np.ones_like(ranks) if op in ("all_reduce", "broadcast") else (ranks - least) / ranks
    over = leaving if op == "all_to_all" else leaving / least  # all that its ranks send to others, else once for all
    if op == "all_reduce" and not group.inner.reduces and not network.reduces:
        in_fullest = (ranks - nodes * least) * most  # as many nodes have one rank more than the thinnest
        shares = in_fullest * group.share_of(most) + (ranks - in_fullest) * group.share_of(least)
        out = np.maximum(1 / slowest, 2 * (ranks - 1) / (rate * shares + card * ranks))
    if op == "all_reduce" and not network.reduces:
        over = np.maximum(over, 2 * (nodes - 1) / ranks)
    return out * rate, over
