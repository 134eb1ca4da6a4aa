"""Links: which devices of a layout are in one node, so that a collective over one of its degrees takes the right links.

Neighbours in a node are tensor-parallel devices first, then those of context, data and pipeline parallelism, as launchers
place them. Of the ranks of a degree that steps over s devices at a time, a node of g devices holds g / s.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.figure import NETWORK
from ...core.machine import Machine
from ...programs.models.layout import CONTEXT, DATA, EXPERT_DATA, PIPELINE, Layout


def stride(layout: Layout, over: str) -> int:
    """Devices from one rank of a degree to the next; those that share experts are neighbours, those that hold the same ones are as
    many apart as share them."""
    if over == EXPERT_DATA:
        return layout.tp * layout.expert_replicas
    if over == CONTEXT:
        return layout.tp
    if over == DATA:  # which includes the devices of context parallelism, that hold the same weights
        return layout.tp
    return layout.tp * layout.cp * layout.dp if over == PIPELINE else 1


def between(machine: Machine, layout: Layout, over: str) -> Machine:
    """The machine as the ranks of one degree see it: fewer of them share a node than there are devices. Where nodes have one
    each, all of them are on the network."""
    step = stride(layout, over)
    if step == 1:
        return machine
    links = [link if link.topology == NETWORK else replace(link, apart=step) for link in machine.links]
    if any(link.topology == NETWORK for link in links):
        links = [link for link in links if link.topology == NETWORK or link.reach != 1]
    return replace(machine, links=tuple(links))
