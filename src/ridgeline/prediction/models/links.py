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
    """The machine as the ranks of one degree see it: fewer of them share a node than there are devices."""
    step = stride(layout, over)
    if step == 1:
        return machine
    has_network = any(link.topology == NETWORK for link in machine.links)
    links = []
    for link in machine.links:
        if link.topology == NETWORK or not link.devices:
            links.append(link)
        elif link.devices // step > 1:
            links.append(replace(link, devices=link.devices // step))
        elif not has_network:  # a node is all there is
            links.append(link)
    return replace(machine, links=tuple(links))
