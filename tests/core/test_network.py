"""Links and what no algorithm can beat on them, counted a second way where that is possible."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.bound import bound
from ridgeline.core.errors import MissingFigure, SchemaError
from ridgeline.core.figure import MESH, NETWORK, SWITCH, TORUS, Link
from ridgeline.core.machine import Machine
from ridgeline.core.network import groups
from ridgeline.machines import schema, write
from ridgeline.programs import ops
from ridgeline.programs.ops import OPS
from strategies import COLLECTIVES, figure, law

GB, S = 1e9, 2.0**30
SIZES = st.integers(1, 2**34)
RATE = st.floats(1e9, 1e13, allow_nan=False)


def machine(*links: Link) -> Machine:
    """One with links only: no memory or arithmetic bounds its collectives."""
    made = rl.machine("h100-sxm")
    fast = replace(made.main, bandwidth=figure("B/s", 1e18))
    return replace(made, levels=(fast,), peaks={"vector.fp32": figure("flop/s", 1e24)}, links=links, fitted={})


def floor(op: str, size: float, ranks: int, on: Machine) -> float:
    return float(bound(OPS[op](bytes=size, ranks=ranks), on).floor)


@st.composite
def nodes(draw: st.DrawFn) -> Machine:
    """A fabric of any topology inside a node, and a network card that is no faster."""
    rate = draw(RATE)
    devices = draw(st.integers(2, 16))
    inner = Link(
        "fabric",
        figure("B/s", rate),
        draw(st.sampled_from([SWITCH, MESH, TORUS])),
        links=draw(st.integers(1, 24)),
        devices=devices,
        dimensions=draw(st.integers(1, 3)),
        reduces=draw(st.booleans()),
    )
    card = Link("nic", figure("B/s", rate * draw(st.floats(0.01, 1))), NETWORK, reduces=draw(st.booleans()))
    return machine(inner, card)


# -- known numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "op", "ranks", "seconds", "limiter"),
    [
        ("h100-sxm", "all_reduce", 8, S / 450e9, "nvlink"),  # the switch adds: each element leaves a rank once
        ("a100-sxm-80gb", "all_reduce", 8, 2 * 7 / 8 * S / 300e9, "nvlink"),  # its switch does not
        ("h100-sxm", "all_gather", 8, 7 / 8 * S / 450e9, "nvlink"),
        ("mi300x", "all_reduce", 8, 2 * 7 / 8 * S / 448e9, "infinity-fabric"),  # seven links at once
        ("mi300x", "all_gather", 2, S / 2 / 64e9, "infinity-fabric"),  # two ranks share one link
        ("mi300x", "all_to_all", 4, 3 / 4 * S / (3 * 64e9), "infinity-fabric"),
        ("h100-pcie", "all_gather", 2, S / 2 / 300e9, "nvlink"),  # a bridge joins two cards
        ("h100-pcie", "all_gather", 8, 7 / 8 * S / 63e9, "pcie"),  # and no more
        ("h100-sxm", "all_gather", 64, 7 / 8 * S / (8 * 50e9), "nic"),  # a node takes in the parts of seven others
        ("h100-sxm", "all_to_all", 16, S / 2 / 50e9, "nic"),  # half of each buffer goes to the other node
        ("mi300x", "all_reduce", 64, 2 * 7 / 8 * S / (8 * 50e9), "nic"),  # as between eight ranks, one a node
        (
            "mi300x",
            "all_reduce",
            9,
            16 * S / (5 * (4 * 64e9 + 50e9) + 4 * (3 * 64e9 + 50e9)),
            "infinity-fabric",
        ),  # 5 + 4
        ("mi300x", "all_gather", 9, 8 / 9 * S / (3 * 64e9 + 50e9), "infinity-fabric"),  # into a rank of the four
        ("h100-sxm", "all_to_all", 9, 5 / 9 * S / 50e9, "nic"),  # out of a rank of the four
        ("h100-sxm", "broadcast", 17, S / 5 / 50e9, "nic"),  # 6 + 6 + 5
        ("tpu-v5p", "all_gather", 64, 63 / 64 * S / 600e9, "ici"),
        ("tpu-v5p", "p2p", 2, S / 100e9, "ici"),  # one of six links leads to a neighbour
        ("tpu-v5e", "all_gather", 2, S / 2 / 50e9, "ici"),
        ("v100-sxm2-32gb", "p2p", 2, S / 50e9, "nvlink"),  # two of six
        ("mi250x", "p2p", 4, S / 200e9, "infinity-fabric"),  # four of eight
        ("mi300x", "p2p", 8, S / 64e9, "infinity-fabric"),  # however many ranks there are
        ("mi300x", "p2p", 16, S / 50e9, "nic"),
    ],
)
def test_known_floors(name: str, op: str, ranks: int, seconds: float, limiter: str) -> None:
    found = bound(OPS[op](bytes=S, ranks=ranks), rl.machine(name), "stated")
    assert found.floor == pytest.approx(seconds, rel=1e-9)
    assert found.limiter == limiter


@pytest.mark.parametrize(("side", "dimensions"), [(2, 2), (3, 2), (4, 2), (5, 2), (2, 3), (3, 3), (4, 3), (8, 1)])
def test_distance_in_a_torus_is_at_most_the_mean_over_all_pairs(side: int, dimensions: int) -> None:
    places = list(product(range(side), repeat=dimensions))
    hops = [sum(min(x, side - x) for x in place) for place in places if any(place)]
    link = Link("ici", figure("B/s", 1e11), TORUS, links=2 * dimensions, devices=4096, dimensions=dimensions)
    (group,) = groups(machine(link), side**dimensions)
    assert group.distance <= np.mean(hops) * (1 + 1e-12)
    assert group.distance >= 0.7 * np.mean(hops)  # and close to it


def test_a_link_of_unknown_reach_takes_all_ranks() -> None:
    wire = machine(Link("wire", figure("B/s", 1e10)))
    assert floor("all_reduce", S, 1000, wire) == pytest.approx(2 * 999 / 1000 * S / 1e10)


def test_more_ranks_than_the_links_join_are_refused() -> None:
    with pytest.raises(MissingFigure, match=r"64 ranks .* l4 join \(8 over pcie\).* topology network"):
        bound(ops.all_reduce(bytes=S, ranks=64), rl.machine("l4"))
    with pytest.raises(MissingFigure, match="network"):
        bound(ops.all_reduce(bytes=S, ranks=np.array([2, 8, 9])), rl.machine("l4"))


def test_an_array_of_ranks_is_each_of_them() -> None:
    ranks = np.array([2.0, 3, 8, 9, 16, 64])
    for name in ("h100-sxm", "mi300x"):
        on = rl.machine(name)
        for op in COLLECTIVES:
            together = bound(OPS[op](bytes=S, ranks=ranks), on).floor
            assert np.allclose(together, [floor(op, S, int(count), on) for count in ranks], rtol=1e-12)


# -- laws ---------------------------------------------------------------------------------------------------------


@given(on=nodes(), op=st.sampled_from(COLLECTIVES), size=SIZES, ranks=st.integers(2, 64), factor=st.floats(1, 100))
@law(300)
def test_more_bytes_never_lower_the_floor_and_more_rate_never_raises_it(
    on: Machine, op: str, size: int, ranks: int, factor: float
) -> None:
    time = floor(op, size, ranks, on)
    assert floor(op, int(size * factor), ranks, on) >= time * (1 - 1e-12)
    for place in range(2):
        links = list(on.links)
        links[place] = replace(links[place], per_direction=figure("B/s", links[place].per_direction.stated * factor))
        assert floor(op, size, ranks, replace(on, links=tuple(links))) <= time * (1 + 1e-12)


@given(rate=RATE, size=SIZES, ranks=st.integers(2, 63), reduces=st.booleans())
@law(200)
def test_more_ranks_inside_a_node_never_lower_the_floor_of_an_all_reduce(
    rate: float, size: int, ranks: int, reduces: bool
) -> None:
    on = machine(Link("fabric", figure("B/s", rate), SWITCH, devices=64, reduces=reduces))
    assert floor("all_reduce", size, ranks + 1, on) >= floor("all_reduce", size, ranks, on) * (1 - 1e-12)


@given(on=nodes(), op=st.sampled_from(COLLECTIVES), size=SIZES, more=st.integers(1, 64))
@law(200)
def test_ranks_beyond_a_node_cost_at_least_what_must_leave_it(on: Machine, op: str, size: int, more: int) -> None:
    """However the ranks are spread, some node sends or takes in at least one part of the buffer of one rank."""
    devices, card = on.links[0].devices, on.links[1].per_direction.stated
    ranks = devices + more
    found = bound(OPS[op](bytes=size, ranks=ranks), on)
    assert "nic" in found.terms
    assert found.floor >= size / ranks / devices / card * (1 - 1e-12)


@given(on=nodes(), size=SIZES, ranks=st.integers(2, 16))
@law(100)
def test_a_switch_that_adds_never_raises_the_floor(on: Machine, size: int, ranks: int) -> None:
    adds = replace(on, links=tuple(replace(link, reduces=True) for link in on.links))
    assert floor("all_reduce", size, ranks, adds) <= floor("all_reduce", size, ranks, on) * (1 + 1e-12)


# -- files --------------------------------------------------------------------------------------------------------


def text(links: str) -> str:
    return f"""
name = "a"
title = "A"
vendor = "V"
kind = "gpu"
source = "s"
[sources]
s = "a test"
[[level]]
name = "hbm"
bandwidth = "1 TB/s"
{links}
"""


def test_links_are_written_and_read_again(tmp_path: Path) -> None:
    for name in ("h100-sxm", "mi300x", "tpu-v5p", "h100-pcie"):
        first = rl.machine(name)
        again = schema.read(write.text(first), "again.toml")
        assert again.links == first.links


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ('topology = "star"', "link a.topology: is 'star'; it is one of bus, mesh, network, pair, switch, torus"),
        ('topology = "mesh"\ndimensions = 2', "only a torus has dimensions; the topology is mesh"),
        ("links = 0", "link a.links: is 0; it is a whole number from 1"),
        ("devices = 1.5", "link a.devices: is 1.5; it is a whole number"),
        ("reduces = 1", "link a.reduces: is 1; it is true or false"),
        ("latency = 3", "link a.latency: must be a table, found 3"),
        ("efficiency = 0.8", "link a.efficiency: must be a table, found 0.8"),
        ('topology = "network"\n[[link]]\nname = "b"\nper_direction = "1 GB/s"\ntopology = "network"', "more than one"),
    ],
)
def test_what_a_link_may_not_be(fields: str, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint.replace("(", r"\(")):
        schema.read(text(f'[[link]]\nname = "a"\nper_direction = "1 GB/s"\n{fields}'), "a.toml")


@pytest.mark.parametrize(
    ("word", "topology", "dimensions"),
    [("switched", SWITCH, 0), ("all-to-all", MESH, 0), ("2d-torus", TORUS, 2), ("3d-torus", TORUS, 3)],
)
def test_words_of_older_files_are_read(word: str, topology: str, dimensions: int) -> None:
    made = schema.read(text(f'[[link]]\nname = "a"\nper_direction = "1 GB/s"\ntopology = "{word}"'), "a.toml")
    assert (made.links[0].topology, made.links[0].dimensions) == (topology, dimensions)


@pytest.mark.parametrize("name", ["mi300x", "mi325x", "mi355x", "h100-sxm", "b200-sxm", "tpu-v4", "tpu-v5e", "tpu-v7"])
def test_per_direction_is_of_all_links_of_a_device(name: str) -> None:
    link = rl.machine(name).links[0]
    per_link = {"mi300x": 64, "mi325x": 64, "mi355x": 76.8, "h100-sxm": 25, "b200-sxm": 50, "tpu-v4": 50, "tpu-v5e": 50,
                "tpu-v7": 100}  # fmt: skip
    assert link.per_link == pytest.approx(per_link[name] * GB)
