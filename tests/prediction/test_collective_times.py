"""Expected times of collectives: laws, the algorithm that is chosen, and published tables."""

from __future__ import annotations

import csv
import importlib.util
import math
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.errors import MissingFigure
from ridgeline.core.machine import Machine
from ridgeline.prediction.answer import answer
from ridgeline.prediction.collectives import MOST_RANKS, paths
from ridgeline.programs.ops import OPS
from strategies import COLLECTIVES, figure, law

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "collectives.py"
MACHINES = (
    "h100-sxm", "h200-sxm", "a100-sxm-80gb", "b200-sxm", "gb200", "mi300x", "mi355x", "mi250x-gcd", "v100-sxm2-32gb",
    "tpu-v5e", "tpu-v5p", "gaudi3", "trainium1",
)  # fmt: skip
NETWORKED = tuple(name for name in MACHINES if not name.startswith(("tpu", "trainium", "mi250x")))
load = cache(rl.machine)
sizes = st.integers(1, 2**36)


def predicted(name: str | Machine, op: str, size: float, ranks: int) -> rl.Prediction:
    return rl.predict(OPS[op](bytes=size, ranks=ranks), load(name) if isinstance(name, str) else name)


@given(name=st.sampled_from(MACHINES), op=st.sampled_from(COLLECTIVES), size=sizes, ranks=st.integers(2, 8))
@law(300)
def test_floor_low_time_high_are_in_this_order(name: str, op: str, size: int, ranks: int) -> None:
    made = predicted(name, op, size, ranks)
    assert made.floor <= made.low * (1 + 1e-12)
    assert made.low <= made.time <= made.high
    assert sum(item.seconds for item in made.items) == pytest.approx(made.time)
    assert all(item.seconds >= 0 for item in made.items)


@given(name=st.sampled_from(NETWORKED), op=st.sampled_from(COLLECTIVES), ranks=st.integers(2, 512))
@law(100)
def test_more_bytes_never_take_less(name: str, op: str, ranks: int) -> None:
    """Exactly, over changes of the algorithm and the protocol: the fastest of what all grows grows."""
    made = predicted(name, op, np.unique(np.geomspace(1, 1e11, 2000).astype(np.int64)), ranks)
    assert np.all(np.diff(made.time) >= 0)
    assert np.all(np.diff(made.floor) >= 0)


@given(
    name=st.sampled_from(NETWORKED),
    op=st.sampled_from(COLLECTIVES),
    size=sizes,
    ranks=st.integers(2, 512),
    factor=st.floats(1, 10),
)
@law(200)
def test_more_rate_of_a_link_never_slows(name: str, op: str, size: int, ranks: int, factor: float) -> None:
    before = predicted(name, op, size, ranks).time
    for place, link in enumerate(load(name).links):
        links = list(load(name).links)
        links[place] = replace(link, per_direction=figure("B/s", (link.per_direction.stated or 1.0) * factor))
        assert predicted(replace(load(name), links=tuple(links)), op, size, ranks).time <= before * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "op", "size", "ranks", "algorithm", "network"),
    [
        ("h100-sxm", "all_reduce", 2**30, 8, "in-network", "nvlink"),
        ("h100-sxm", "all_reduce", 2**13, 8, "ring", "nvlink"),
        ("h100-sxm", "all_reduce", 2**30, 64, "hierarchical", "nvlink+nic"),
        ("a100-sxm-80gb", "all_reduce", 2**30, 8, "ring", "nvlink"),
        ("a100-sxm-80gb", "all_reduce", 2**30, 16, "tree", "nvlink+nic"),
        ("h100-sxm", "all_gather", 2**30, 16, "ring", "nvlink+nic"),
        ("mi300x", "all_reduce", 2**30, 8, "direct", "infinity-fabric"),
        ("b200-sxm", "all_to_all", 2**30, 16, "direct", "nvlink+nic"),
        ("h100-pcie", "all_reduce", 2**30, 2, "ring", "nvlink"),
        ("h100-pcie", "all_reduce", 2**30, 8, "ring", "pcie"),
        ("gb200", "all_reduce", 2**30, 72, "in-network", "nvlink"),
    ],
)
def test_the_algorithm_and_the_links(name: str, op: str, size: int, ranks: int, algorithm: str, network: str) -> None:
    done = predicted(name, op, size, ranks).collective
    assert done is not None
    assert (done.algorithm, done.network) == (algorithm, network)


def test_small_messages_are_latency() -> None:
    """A hop of a ring of eight takes more than half a microsecond, and there are fourteen of them."""
    small, smaller = (predicted("h100-sxm", "all_reduce", size, 8).time for size in (8192, 8))
    assert 10e-6 < smaller < small < 25e-6
    assert small < 1.1 * smaller


def test_small_messages_are_uncertain_and_no_size_narrows_what_it_may_take() -> None:
    """Half of the bytes never have a later end, but for the latency by which one algorithm is behind another."""
    sizes = 2.0 ** np.arange(3, 35)
    for name in ("h100-sxm", "mi300x", "l4", "tpu-v5e"):
        for ranks in (2, 8, 16):
            if name == "l4" and ranks > 8:
                continue
            made = rl.predict(rl.ops.all_reduce(bytes=sizes, ranks=ranks), name)
            assert np.all(np.diff(made.low) >= 0)
            assert np.all(made.high[1:] >= 0.97 * made.high[:-1])
            wide = np.asarray(made.high / made.time)
            assert wide[0] > 2.8
            assert 1.4 < wide[-1] < 1.5


@pytest.mark.parametrize(
    ("op", "share"),
    [("all_reduce", 2 * 7 / 8), ("all_gather", 7 / 8), ("reduce_scatter", 7 / 8), ("all_to_all", 7 / 8),
     ("broadcast", 1), ("p2p", 1)],
)  # fmt: skip
def test_bandwidths_are_those_of_nccl_tests(op: str, share: float) -> None:
    made = predicted("h100-sxm", op, 2**28, 8)
    row = next(iter(made.rows()))
    assert row["algbw"] == pytest.approx(2**28 / made.time)
    assert row["busbw"] == pytest.approx(share * row["algbw"])


def test_a_collective_is_answered_with_its_algorithm_and_bandwidths() -> None:
    for size in (2**30, np.array([2.0**30])):
        lines = answer(OPS["all_reduce"], {"bytes": size, "ranks": 64}, load("h100-sxm")).lines
        assert lines[1].startswith("hierarchical over NVLink and NIC · algbw ")
        assert "busbw" in lines[1]


def test_an_all_to_all_holds_what_it_sends_and_what_it_gets() -> None:
    """50 GiB of each are more than the 80 GiB of an H100; an all-reduce works in place."""
    made = predicted("h100-sxm", "all_to_all", 50 * 2**30, 8)
    assert made.bounds[0].shortage == "does not fit: needs 107 GB, h100-sxm has 85.9 GB"
    assert not predicted("h100-sxm", "all_reduce", 50 * 2**30, 8).bounds[0].shortage


@pytest.mark.parametrize(
    ("ranks", "placed", "thinnest"),
    [
        (9, "9 ranks as 5 + 4 on 2 nodes", 4),
        (17, "17 ranks as 6 + 6 + 5 on 3 nodes", 5),
        (33, "33 ranks as 3 nodes of 7 and 2 of 6", 6),
        (57, "57 ranks as 1 node of 8 and 7 of 7", 7),
    ],
)
def test_ranks_that_do_not_fill_nodes_are_limited_by_the_thinnest(ranks: int, placed: str, thinnest: int) -> None:
    """Each rank brings a network card; 4.5 of them in a node took 5.93 ms, less than four can."""
    made, exchange = (predicted("h100-sxm", op, 2**40, ranks) for op in ("all_reduce", "all_to_all"))
    assert placed in made.notes
    nodes, rate = math.ceil(ranks / 8), 50e9 * paths()["network"].efficiency
    assert made.time == pytest.approx(2 * (nodes - 1) / nodes * 2**40 / thinnest / rate, rel=0.01)
    assert exchange.time == pytest.approx((ranks - thinnest) / ranks * 2**40 / rate, rel=0.01)
    assert predicted("h100-sxm", "all_reduce", 2**30, 8 * nodes).warnings == ()


@pytest.mark.parametrize("name", ["mi300x", "gaudi2"])
def test_a_node_that_is_not_full_uses_fewer_links_of_a_mesh(name: str) -> None:
    """Nine ranks are 5 + 4, and a rank of the four has three of seven links; eight took longer than nine."""
    eight, nine, ten, sixteen = (predicted(name, "all_reduce", 2**34, ranks) for ranks in (8, 9, 10, 16))
    assert nine.floor > ten.floor > sixteen.floor
    assert nine.time > ten.time > sixteen.time
    assert nine.time > eight.time * 7 / 4
    assert nine.time > nine.floor


@pytest.mark.parametrize(
    ("name", "links", "rate"),
    [
        ("v100-sxm2-32gb", "2 of 6", 50e9),
        ("p100-sxm2-16gb", "2 of 4", 40e9),
        ("mi250x", "4 of 8", 200e9),
        ("tpu-v5e", "1 of 4", 50e9),
        ("tpu-v5p", "1 of 6", 100e9),
        ("mi300x", "1 of 7", 64e9),
        ("trainium2", "25 % of all", 160e9),
    ],
)
def test_a_send_to_one_peer_uses_the_links_to_it(name: str, links: str, rate: float) -> None:
    made = predicted(name, "p2p", 2**30, 2)
    assert made.collective is not None
    assert made.collective.algbw < rate
    assert made.floor == pytest.approx(2**30 / rate)
    assert made.time > 1.1 * made.floor
    assert any(note.endswith(f"that lead to one peer: {links}") for note in made.notes)
    assert not any("one peer" in note for note in predicted("h100-sxm", "p2p", 2**30, 2).notes)


def test_a_sweep_names_one_placement() -> None:
    made = rl.predict(OPS["all_reduce"](bytes=2**30, ranks=np.array([8, 9, 16, 17])), load("h100-sxm"))
    assert made.warnings == ("ranks are spread evenly over nodes, such as 9 ranks as 5 + 4 on 2 nodes",)


def test_the_basis_says_whose_tables_it_rests_on() -> None:
    for name, whose in (("h100-sxm", "this machine"), ("b300-sxm", "other machines"), ("l4", "other machines")):
        made = predicted(name, "all_reduce", 2**20, 8).expected[0]
        assert str(made.confidence).startswith("transferred from published")
        assert whose in str(made.confidence)
        assert made.label == "transferred"


@pytest.mark.parametrize(("name", "within", "beyond"), [("h100-sxm", 16, 17), ("tpu-v5e", 16, 256), ("gb200", 8, 72)])
def test_more_ranks_than_any_table_has_are_called_extrapolated(name: str, within: int, beyond: int) -> None:
    """1024 ranks were said to be transferred from tables of this machine, which have 8 and 16."""
    with (Path(__file__).parents[2] / "benchmarks" / "data" / "collectives.csv").open(encoding="utf-8") as table:
        assert max(int(row["ranks"]) for row in csv.DictReader(table)) == MOST_RANKS
    texts = [str(predicted(name, "all_reduce", 2**20, ranks).expected[0].confidence) for ranks in (within, beyond)]
    assert "extrapolated" not in texts[0]
    assert texts[1].endswith("extrapolated beyond their 16 ranks")


def test_other_ops_have_no_fields_of_collectives() -> None:
    made = rl.predict(OPS["gemm"](m=8, n=8, k=8), load("h100-sxm"))
    assert made.collective is None
    assert "busbw" not in made.columns()


# -- published tables ---------------------------------------------------------------------------------------------


@cache
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("collectives_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_no_published_time_beats_the_floor() -> None:
    for table in benchmark().tables():
        assert not table.beaten.any(), (table.machine_name, table.ranks, table.op, table.source)


@pytest.mark.parametrize(("small", "limit"), [(False, 0.2), (True, 0.4)])
def test_median_error_on_tables_that_nothing_was_fitted_to(small: bool, limit: float) -> None:
    held_out = [table for table in benchmark().tables() if table.use == "judge"]
    errors = np.concatenate([abs(table.ratios - 1)[(table.sizes < 1e6) == small] for table in held_out])
    assert len(errors) > 50
    assert np.median(errors) <= limit


def test_a_table_with_impossible_times_would_be_noticed() -> None:
    table = next(table for table in benchmark().tables() if table.ranks == 8)
    assert replace(table, times=table.times / 100).beaten.any()


@pytest.mark.parametrize(
    ("name", "ranks", "says"),
    [
        ("epyc-9654", 2, "epyc-9654 has no link to other CPUs: pcie goes to devices and joins no CPUs"),
        ("grace", 8, "8 ranks are more than the links of grace join (2 over nvlink-c2c)"),
    ],
)
def test_the_slots_of_a_cpu_join_no_cpus(name: str, ranks: int, says: str) -> None:
    """Eight sockets were taken for eight cards of one host: 1 GiB in 39.8 ms, and a model on eight EPYCs."""
    with pytest.raises(MissingFigure, match=re.escape(says)):
        rl.predict(rl.ops.all_reduce(bytes=2**30, ranks=ranks), rl.machine(name))
