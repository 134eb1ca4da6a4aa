"""Collectives between devices: the links they cross, and the bytes over each that no algorithm can do without.

    N ranks of S bytes    R  rate of a device inside its node, one way    g  devices a node holds
    M nodes               Q  rate of its network card, one way            share  of R that N ranks can use

    one node      time >= out S / (share R)
    more          time >= out S / (R + Q)    and    time >= over S / (g Q)

`out` is what a rank must send, `over` what must leave a node. A rank sends each element of an all-reduce at least
once, as its own contribution or as the sum; where no switch adds, all ranks together send it 2 (N-1) times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from .cached import cached_property
from .errors import MissingFigure
from .figure import MESH, NETWORK, TORUS, Link
from .machine import Machine
from .work import Array, Kernel, Work

FAMILY = "collective"  # of the kernels that stand for collectives
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
        size = self.inner.devices if self.network is not None else inf
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
    def share(self) -> NDArray[np.float64]:
        """Of the rate of all links of a device that the ranks of one node can use."""
        peers = np.minimum(self.ranks, self.inner.devices or inf) - 1
        if self.inner.topology == MESH and self.inner.devices > 1:
            return np.minimum(peers / (self.inner.devices - 1), 1.0)
        if self.inner.topology == TORUS and self.inner.links:
            return np.minimum(2 * peers / self.inner.links, 1.0)  # two links lead to a neighbour, at most
        return np.ones_like(self.ranks)

    @property
    def distance(self) -> NDArray[np.float64]:
        """Hops between two ranks of a torus, at least, on average; 1 where every rank is a neighbour."""
        if self.inner.topology != TORUS or not self.inner.dimensions:
            return np.ones_like(self.ranks)
        # a ring of k has (k - 1/k) / 4 on average; equal sides are the shortest for a given number of ranks
        hops = self.inner.dimensions * np.sinh(np.log(self.ranks) / self.inner.dimensions) / 2
        return np.maximum(hops * self.ranks / (self.ranks - 1), 1.0)

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
    inner = [link for link in machine.links if link.topology != NETWORK]
    network = next((link for link in machine.links if link.topology == NETWORK), None)
    if not inner:
        inner, network = [network or machine.link()], None
    made, left = [], np.ones(count.shape, dtype=np.bool_)
    for link in inner:
        fits = left & (count <= (link.devices or inf))
        if fits.any():
            made.append(Group(link, None, count, fits))
            left &= ~fits
    if left.any():
        largest = max(inner, key=lambda link: link.devices)
        if network is None:
            most = f"{largest.devices} over {largest.name}"
            asked = f"{np.max(count):.0f} ranks are more than the links of {machine.name} join ({most})"
            where = machine.file or "its machine file"
            raise MissingFigure(f"{asked}, and it has no network card; add a [[link]] of topology network to {where}.")
        made.append(Group(largest, network, count, left))
    return made


def sent(op: str, ranks: Array, reduces: bool) -> Array:
    """Share of the buffer that a rank must send; with sums made in a switch, each element once."""
    if op in ("broadcast", "p2p") or (op == "all_reduce" and reduces):
        return np.ones_like(ranks)
    return (2 if op == "all_reduce" else 1) * (ranks - 1) / ranks


def _leaving(op: str, group: Group, reduces: bool) -> Array:
    """Share of the buffer that must leave some node, however the ranks are spread over the nodes."""
    ranks, nodes, size = group.ranks, group.nodes, float(group.inner.devices)
    if op == "all_to_all":
        return np.minimum(group.fullest * (ranks - group.fullest), size * (ranks - size)) / ranks
    return sent(op, nodes, reduces)


def least_bytes(kernel: Kernel, machine: Machine, rates: Mapping[str, float]) -> dict[str, Array]:
    """Bytes over each link that a collective takes at least; over the rate of the link they give its least time."""
    size = kernel.sizes["bytes"]
    least: dict[str, Array] = {}
    for group in groups(machine, kernel.sizes["ranks"]):
        inner, network, ranks = group.inner, group.network, group.ranks
        reduces = inner.reduces or (network is not None and network.reduces)
        bytes_out = size * sent(kernel.op, ranks, reduces)
        if network is None:
            bytes_out = bytes_out * (group.distance if kernel.op == "all_to_all" else 1.0) / group.share
        else:
            both = rates[inner.name] + rates[network.name]
            bytes_out = bytes_out * rates[inner.name] / both
            over = size * _leaving(kernel.op, group, network.reduces) / inner.devices
            least[network.name] = least.get(network.name, 0.0) + np.where(group.applies, over, 0.0)
        least[inner.name] = least.get(inner.name, 0.0) + np.where(group.applies, bytes_out, 0.0)
    return least
