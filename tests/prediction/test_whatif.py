"""What changes would bring: prices against arithmetic, the laws of a chain, and the path on the chart."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from legible import assert_legible
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.core.machine import Machine, two_number
from ridgeline.core.observation import Observation
from ridgeline.core.work import work
from ridgeline.prediction import whatif
from ridgeline.prediction.whatif import Case, amdahl, apply, parse
from ridgeline.programs import ops
from ridgeline.render.chart import document, read
from ridgeline.render.charts import CHARTS
from ridgeline.render.charts.changes import Version, version, versions
from ridgeline.render.draw import mpl
from ridgeline.render.draw.terminal import draw
from ridgeline.render.tables.studies import changes_lines, changes_table
from strategies import calls, law, machines

FIXTURES = Path(__file__).parents[1] / "fixtures" / "torch"
CALIBRATED = rl.machine("h200-sxm")
H100 = rl.machine("h100-sxm")
H200 = replace(CALIBRATED, fitted={})  # the flat form, whose times follow from the ceilings alone
A100 = rl.machine("a100-sxm-80gb")
PLAIN = two_number(1e12, 1e11, 1e-6)  # ridge 10 flop/B, launches of 1 us
LAYER = {"batch": 1, "in_features": 4096, "out_features": 14336}


def case(op: str, machine: Machine = PLAIN, options: dict[str, Any] | None = None, **values: Any) -> Case:
    return Case(machine, ops.find(op), values, options=options or {})


def chain(text: str, start: Case) -> list[whatif.PricedCase]:
    return apply(start, parse(text))


# -- single changes, counted by hand --------------------------------------------------------------------------


def test_quantising_the_weights_of_a_decoding_layer_halves_what_it_reads() -> None:
    first, last = chain("quantize=weights:int8", case("linear", H200, **LAYER))
    # x and y are bf16, the weights go from 2 to 1 byte
    assert first.bytes == 2 * (4096 + 14336 + 4096 * 14336)
    assert last.bytes == 2 * (4096 + 14336) + 4096 * 14336
    assert last.direction == "both"
    assert 1.8 < last.ratio < 2.0


def test_fp32_to_int4_divides_bytes_by_eight_and_raises_the_roof_sixty_four_fold() -> None:
    values = {"m": 4096, "n": 4096, "k": 4096, "dtype": "fp32", "out_dtype": "fp32"}
    first, _, last = chain("quantize=int4,quantize=out:int4", case("gemm", A100, {"ceilings": "stated"}, **values))
    assert first.bytes / last.bytes == 8
    before, after = first.prediction.bounds[0], last.prediction.bounds[0]
    assert float(after.peak or 0) / float(before.peak or 1) == pytest.approx(1248 / 19.5)
    # intensity rises eightfold and the ridge 64-fold, so intensity over ridge falls eightfold
    fall = (before.intensity / before.ridge) / (after.intensity / after.ridge)
    assert fall == pytest.approx(1248 / 19.5 / 8)


def test_fusing_a_norm_into_the_product_removes_one_write_and_one_read_of_the_activation() -> None:
    first, last = chain("fuse=rmsnorm", case("linear", batch=512, in_features=1024, out_features=1024))
    assert [step.name for step in first.prediction.steps] == ["rmsnorm", "linear"]
    assert first.bytes - last.bytes == 2 * 512 * 1024 * 2
    assert first.flops == last.flops
    assert len(last.prediction.steps) == 1
    # the kernels run one after the other at their floors, plus a launch each; fused there is one launch
    assert first.time == pytest.approx(float(first.prediction.floor) + 2e-6, rel=0.3)


def test_a_tiny_softmax_disappears_into_the_kernel_before_it() -> None:
    start = case("gemm", H200, m=8, n=128, k=128)
    first, last = chain("fuse=softmax", start)
    assert first.bound == "overhead"
    assert last.ratio == pytest.approx(2, rel=0.02)  # two launches become one
    softmax = first.prediction.steps[1].work
    assert (softmax.shape["rows"], softmax.shape["cols"]) == (8, 128)


def test_neighbours_can_follow_each_other_into_the_kernel() -> None:
    first, one, two = chain("fuse=gelu,fuse=residual", case("gemm", m=256, n=512, k=128))
    tensor = 256 * 512 * 2
    assert first.bytes - one.bytes == 2 * tensor
    assert one.bytes - two.bytes == 2 * tensor
    assert len(two.prediction.steps) == 1
    assert chain("fuse=before:silu", case("gemm", m=256, n=512, k=128))[0].prediction.steps[0].name == "silu"


def test_a_neighbour_of_a_quantised_product_stays_wide_on_its_other_side() -> None:
    first, _ = chain("fuse=rmsnorm", case("linear", H200, **{**LAYER, "batch": 64, "dtype": "fp8"}))
    norm = first.prediction.steps[0].work
    assert norm.moves["main", "x", "read"] == 64 * 4096 * 2
    assert norm.moves["main", "y", "write"] == 64 * 4096


@pytest.mark.parametrize(
    ("op", "values", "elements"),
    [
        ("gemv", {"m": 48, "n": 64, "dtype": "fp8"}, 48),  # y is bf16
        ("gemm", {"m": 8, "n": 48, "k": 64, "dtype": "int8"}, 8 * 48),  # C is int32
        ("gemm", {"m": 8, "n": 48, "k": 64, "dtype": "fp8", "out_dtype": "fp32"}, 8 * 48),
        ("cast", {"n": 100}, 100),  # from fp32 to bf16
        ("softmax", {"rows": 8, "cols": 16, "out_dtype": "fp32"}, 128),
    ],
)
def test_what_follows_has_as_many_elements_as_what_leaves(op: str, values: dict[str, Any], elements: int) -> None:
    first, last = chain("fuse=relu", case(op, **values))
    assert first.prediction.steps[1].work.shape["n"] == elements
    assert len(last.prediction.steps) == 1


def test_a_batch_reads_the_weights_once_for_all() -> None:
    first, last = chain("batch=8", case("linear", H200, **LAYER))
    assert last.case.amount == 8
    assert last.time == pytest.approx(first.time, rel=0.01)  # eight rows for the price of one
    assert last.ratio == pytest.approx(8, rel=0.01)
    assert last.intensity == pytest.approx(8 * (first.intensity or 0), rel=0.01)


def test_batching_attention_brings_nothing_because_every_sequence_has_its_own_keys() -> None:
    start = case("attention", H200, {"launch": 0.0}, batch=4, heads=32, seq_q=1, seq_kv=8192, head_dim=128)
    last = chain("batch=8", start)[-1]
    assert last.ratio == pytest.approx(1)
    assert last.why == "hbm is the limiter (memory-bound) and its load grows with the batch"


def test_tiling_goes_from_no_reuse_to_every_operand_once() -> None:
    m = 1024
    start = case("gemm", m=m, n=m, k=m, dtype="fp32", traffic="no_reuse")
    first, tiled, last = chain("tile=32,tile", start)
    assert first.bytes == 4 * (2 * m**3 + m**2)
    assert tiled.bytes == 4 * (2 * m**3 / 32 + m**2)
    assert last.bytes == 4 * 3 * m**2
    assert (tiled.direction, first.bound, last.bound) == ("both", "memory", "compute")


def test_tiling_attention_keeps_the_scores_on_chip() -> None:
    start = case("attention", batch=1, heads=8, seq_q=2048, head_dim=64, variant="standard")
    first, last = chain("tile", start)
    assert first.bytes - last.bytes == 4 * 8 * 2048 * 2048 * 2
    assert chain("tile", last.case)[-1].why == "main-memory traffic is compulsory already"


def test_tensor_units_do_products_only_and_only_in_their_formats() -> None:
    product = case("gemm", H200, m=4096, n=4096, k=4096, dtype="fp32")
    last = chain("tensor", product)[-1]
    assert (last.before.engine if last.before else "", last.engine) == ("vector.fp32", "tensor.tf32")
    assert last.direction == "up"
    assert "already" in chain("tensor", last.case)[-1].why
    assert "no matrix product" in chain("tensor", case("softmax", H200, rows=64, cols=64))[-1].why
    forced = case("gemm", H200, {"engine": "vector"}, m=4096, n=4096, k=4096, dtype="fp16")
    assert chain("tensor", forced)[-1].engine == "tensor.fp16"
    assert (
        "no tensor units for fp32" in chain("tensor=fp32", case("gemm", A100, m=64, n=64, k=64, dtype="fp32"))[-1].why
    )


def test_a_graph_takes_the_queue_from_a_launch_and_removing_overhead_all_of_it() -> None:
    start = case("gelu", n=1000)  # 4 kB at 100 GB/s: 40 ns, beside a launch of 1 us
    first, graph, bare = chain("graph,overhead", start)
    busy = first.time - 1e-6
    assert graph.time == pytest.approx(busy + 0.46e-6)
    assert bare.time == pytest.approx(busy)
    assert (first.bound, bare.bound) == ("overhead", "memory")
    assert chain("graph=0.2us", start)[-1].time == pytest.approx(busy + 0.2e-6)
    assert chain("graph=2us", start)[-1].why == "a launch costs no more than a graph node"
    with pytest.raises(InputError, match="zero or more"):
        chain("graph=-1us", start)
    assert chain("graph", case("gelu", two_number(1e12, 1e11), n=1000))[-1].why == "the launch overhead is zero"
    assert chain("graph", case("gelu", options={"launch": 8e-6}, n=1000))[-1].time == pytest.approx(busy + 0.46e-6)


@pytest.mark.parametrize("name", ["h200-sxm", "a100-sxm-80gb", "b200-sxm"])
def test_a_kernel_takes_as_long_in_a_graph(name: str) -> None:
    """A kernel of 1.67 us took 0.32 in a graph, less than any kernel does from its start to its end."""
    first, graph = chain("graph", case("gelu", rl.machine(name), n=4096))
    assert first.prediction.expected[0].kernels
    assert (graph.time, graph.low, graph.high) == (first.time, first.low, first.high)
    assert graph.gain == 0
    assert graph.why == "a kernel takes as long in a graph, which saves the wait for the host"
    assert chain("graph,graph", case("gelu", rl.machine(name), n=4096))[-1].why == "it is a graph already"


def test_recorded_kernels_take_as_long_in_a_graph() -> None:
    """Elementwise kernels of a few blocks, replayed and launched one by one; only the gaps before them differ."""

    def kernels(file: str) -> list[dict[str, Any]]:
        with gzip.open(FIXTURES / file, "rt") as opened:
            found = [event for event in json.load(opened)["traceEvents"] if event.get("cat") == "kernel"]
        return sorted(found, key=lambda event: event["ts"])

    def small(events: list[dict[str, Any]]) -> float:
        return float(
            np.median([event["dur"] for event in events if "elementwise" in event["name"] and event["args"]["grid"][0] < 64 and event["dur"] < 1.2])
        )  # fmt: skip

    def gap(events: list[dict[str, Any]]) -> float:
        return float(np.median([then["ts"] - event["ts"] - event["dur"] for event, then in pairwise(events)]))

    replayed, launched = kernels("h200_llama_graph.json.gz"), kernels("h200_resnet.json.gz")
    assert small(replayed) == pytest.approx(small(launched), rel=0.1)
    assert gap(replayed) < 0.15
    assert gap(launched) > 1.0


def test_a_graph_also_takes_the_waiting_for_the_host_where_it_is_known() -> None:
    """Sent every 5 us, run in 1.05: 3.95 us of waiting beside the time; 400 us of work leave the host time enough."""
    known = replace(PLAIN, dispatch=replace(PLAIN.launch, stated=5e-6))
    first, graph = chain("graph", case("gelu", known, n=1000))
    assert first.waiting == pytest.approx(5e-6 - first.time)
    assert graph.waiting == 0.0
    assert first.gain == 0.0
    assert graph.gain == pytest.approx(0.54e-6)  # on the device, as without the figure
    assert graph.notes == (
        "without a graph the device also idles 3.95 us waiting for the host (dispatch 5 us per launch)",
    )
    assert whatif.case_document(graph)["waiting_us"] == 0.0
    assert whatif.case_document(first)["waiting_us"] == pytest.approx(1e6 * (5e-6 - first.time))
    long = chain("graph", case("gelu", known, n=10_000_000))
    assert long[0].waiting == 0.0
    assert long[1].notes == ()
    batched = chain("batch=2", case("gelu", known, n=1000))[-1]
    assert batched.waiting == pytest.approx((5e-6 - batched.time) / 2)
    assert chain("graph,graph", case("gelu", known, n=1000))[-1].why == "it is a graph already"


def test_what_the_host_takes_is_called_unknown_where_no_figure_says_it() -> None:
    first, graph = chain("graph", case("gelu", n=1000))
    assert first.waiting is None
    assert whatif.case_document(first)["waiting_us"] is None
    (note,) = graph.notes
    assert "two-number is unknown" in note


def test_on_another_machine_each_has_the_best_ceilings_there_are() -> None:
    first, last = chain("machine=b200-sxm", case("gemm", H200, m=8192, n=8192, k=8192))
    assert [stop.ceilings for stop in (first, last)] == ["measured", "stated"]
    assert last.case.machine.name == "b200-sxm"
    assert last.ratio > 1.5
    assert chain("machine=h200-sxm", case("gemm", CALIBRATED, m=64, n=64, k=64))[-1].why == "it is h200-sxm already"


def test_a_declared_effect_moves_the_point_as_declared() -> None:
    start = case("gemm", options={"efficiency": 0.4, "launch": 0.0}, m=64, n=64, k=64, dtype="fp32", traffic="no_reuse")
    first, fewer, faster, both = chain("bytes=0.5,efficiency=80%,flops=0.5", start)
    # memory-bound: half the bytes is half the time, along the roof
    assert (fewer.ratio, fewer.direction) == (pytest.approx(2), "both")
    assert (faster.ratio, faster.direction) == (pytest.approx(2), "up")
    assert both.ratio == pytest.approx(1)
    assert first.bound == "memory"


def test_speculation_is_priced_per_token_that_comes_out() -> None:
    start = case("linear", H200, {"launch": 0.0}, **LAYER)
    first, last = chain("speculate=3:0.5", start)
    # 1 + 1/2 + 1/4 + 1/8 tokens from one pass over four
    assert last.case.amount == pytest.approx(1.875)
    assert last.prediction.steps[0].work.shape["batch"] == 4
    assert last.ratio == pytest.approx(1.875 * first.time / last.time)
    attention = case("attention", H200, batch=1, heads=8, seq_q=1, head_dim=64)
    assert chain("speculate=4", attention)[-1].case.values == {
        "batch": 1, "heads": 8, "seq_q": 5, "head_dim": 64, "seq_kv": 5,
    }  # fmt: skip


def test_splitting_reads_a_share_of_the_weights_and_sends_the_result() -> None:
    last = chain("split=8", case("linear", H200, **LAYER))[-1]
    weights, result = 4096 * 14336 * 2, 14336 * 2
    product, gather = (step.work.bytes for step in last.prediction.steps)
    assert product == weights / 8 + 2 * 4096 + result / 8
    assert gather == result / 8 + result  # its own part read, all of it written
    assert last.bytes == product + gather
    assert [step.name for step in last.prediction.steps] == ["linear", "all_gather"]
    assert 1 < last.ratio < 8
    with pytest.raises(InputError, match="cannot be divided by 3"):
        chain("split=3", case("linear", H200, **LAYER))


def test_every_remedy_for_decoding_changes_the_predicted_time() -> None:
    layer, attention = (
        case("linear", H200, **LAYER),
        case("attention", H200, batch=1, heads=32, seq_q=1, seq_kv=8192, head_dim=128),
    )
    for text, start in (
        ("quantize=weights:int4_g128", layer),
        ("speculate=4", layer),
        ("batch=16", layer),
        ("quantize=kv:fp8", attention),
        ("split=4", layer),
    ):
        assert chain(text, start)[-1].ratio > 1.2, text


def test_a_bare_count_of_work_can_be_changed_too() -> None:
    counts = work(matrix={"product": (1e9,)}, read={"x": (1e7, "bf16")}, write={"y": (1e7, "bf16")}, dtype="bf16")
    start = Case(H200, given=replace(counts, name="kernel 7"))
    first, narrow, wide, faster = chain("quantize=fp8,batch=4,bandwidth=2", start)
    assert (first.bytes, narrow.bytes, wide.bytes) == (4e7, 2e7, 8e7)
    assert narrow.engine == "tensor.fp8"
    assert faster.ratio == pytest.approx(2, rel=0.2)
    for text in ("tile", "tensor", "speculate=2", "split=2", "quantize=kv:fp8"):
        with pytest.raises(InputError, match="counts"):
            chain(text, start)


# -- why nothing happens --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values", "reason"),
    [
        ("bandwidth=2", {"m": 8192, "n": 8192, "k": 8192}, "tensor.bf16 is the limiter (compute-bound) and is not affected"),
        ("compute=2", {"m": 1, "n": 8192, "k": 8192}, "hbm is the limiter (memory-bound) and is not affected"),
        ("quantize=bfloat16", {"m": 64, "n": 64, "k": 64}, "it is bf16 already"),
        ("quantize=out:bf16", {"m": 64, "n": 64, "k": 64}, "out_dtype is bf16 already"),
        ("bandwidth=1", {"m": 64, "n": 64, "k": 64}, "a factor of 1 changes nothing"),
        ("tile", {"m": 64, "n": 64, "k": 64}, "main-memory traffic is compulsory already"),
    ],
)  # fmt: skip
def test_a_change_without_effect_says_why(text: str, values: dict[str, Any], reason: str) -> None:
    last = chain(text, case("gemm", H200, **values))[-1]
    assert last.why == reason
    assert (last.gain, last.ratio) == (0, 1)


def test_a_change_with_effect_gives_no_reason() -> None:
    assert chain("bandwidth=2", case("gemm", H200, m=1, n=8192, k=8192))[-1].why == ""


def test_every_case_has_the_time_that_predict_gives() -> None:
    for text in ("quantize=fp8", "fuse=gelu", "batch=4", "machine=a100-sxm-80gb"):
        for priced in chain(text, case("gemm", CALIBRATED, m=4096, n=4096, k=4096)):
            again = rl.predict(priced.case.program, priced.case.machine, **priced.case.options)
            assert (priced.time, priced.floor, priced.low, priced.high) == (
                again.time,
                again.floor,
                again.low,
                again.high,
            )


@pytest.mark.parametrize("size", [8 * 2**10, 64 * 2**20])
@pytest.mark.parametrize("name", ["all_reduce", "all_to_all", "p2p"])
def test_collectives_take_what_their_links_and_bytes_take(name: str, size: int) -> None:
    """Main memory and arithmetic are not what a collective waits for; half of its bytes take what half of its bytes take."""
    start = case(name, H100, bytes=float(size), ranks=8.0)
    for text in ("bandwidth=2", "compute=0.5", "flops=0.5"):
        first, last = chain(text, start)
        assert last.time == pytest.approx(first.time, rel=1e-9)
        assert (last.low, last.high) == pytest.approx((first.low, first.high), rel=1e-9)
        assert sum(item.seconds for item in last.prediction.items) == pytest.approx(last.time)
    half = float(rl.predict(ops.find(name)(bytes=size // 2, ranks=8), H100).time)
    assert chain("bytes=0.5", start)[-1].time == pytest.approx(half, rel=1e-9)


def test_the_exchange_behind_a_split_stays_what_it_is_on_faster_memory() -> None:
    _, parted, faster = chain("split=8,bandwidth=2", case("gemm", H100, m=1.0, n=8192.0, k=8192.0))
    sent = [float(made.prediction.step(1).time) for made in (parted, faster)]
    assert sent[0] == pytest.approx(sent[1], rel=1e-9)


def test_faster_hardware_shows_its_effect_up_to_the_launch() -> None:
    """One token through a layer of 8192 x 28672 is memory-bound: 100 times the bandwidth leaves 1 % and the launch."""
    first, last = chain("bandwidth=100", case("linear", CALIBRATED, batch=1, in_features=8192, out_features=28672))
    launch = sum(float(item.seconds) for item in first.prediction.items if item.kind == "launch")
    assert last.floor == pytest.approx(first.floor / 100)
    assert last.time == pytest.approx((first.time - launch) / 100 + launch)
    assert last.time >= last.floor


@law(25)
@given(calls(names=("gemm", "linear", "attention", "softmax", "gelu", "conv2d"), largest=4096), st.floats(1, 8), st.sampled_from(["bandwidth", "compute"]))  # fmt: skip
def test_a_faster_machine_is_never_slower_by_calibrated_times_either(call: Any, factor: float, what: str) -> None:
    op, values = call
    try:
        last = chain(f"{what}={factor}", Case(CALIBRATED, op, values))[-1]
    except InputError:  # a format the H200 does not compute in
        return
    assert last.ratio >= 1 - 1e-9
    assert last.ratio <= factor * (1 + 1e-9)
    assert last.time >= last.floor


# -- laws -----------------------------------------------------------------------------------------------------

FREE = ("bandwidth=1", "compute=1", "batch=1", "split=1", "bytes=1", "flops=1")


@law(40)
@given(calls(largest=512), machines(), st.floats(1, 100), st.sampled_from(["bandwidth", "compute"]))
def test_a_faster_machine_is_never_slower(call: Any, machine: Machine, factor: float, what: str) -> None:
    op, values = call
    last = chain(f"{what}={factor}", Case(machine, op, values))[-1]
    assert last.time <= last.before.time * (1 + 1e-12)  # type: ignore[union-attr]


@law(40)
@given(calls(largest=512), machines(), st.sampled_from(FREE))
def test_a_change_by_nothing_changes_nothing(call: Any, machine: Machine, text: str) -> None:
    op, values = call
    try:
        first, last = chain(text, Case(machine, op, values))
    except InputError:  # an op without a batch, or one that nobody knows how to split
        return
    assert last.time == first.time
    assert (last.gain, last.ratio, last.direction) == (0, 1, "none")


@law(40)
@given(
    calls(names=("gemm", "linear", "bmm"), largest=512),
    machines(),
    st.lists(st.sampled_from(["quantize=fp8", "batch=4", "bandwidth=3", "compute=0.5", "fuse=gelu", "overhead", "graph"]), min_size=1, max_size=5),
)  # fmt: skip
def test_the_ratios_of_a_chain_multiply_and_its_gains_add(call: Any, machine: Machine, texts: list[str]) -> None:
    op, values = call
    stops = chain(",".join(texts), Case(machine, op, values))
    assert len(stops) == len(texts) + 1
    assert math.prod(stop.ratio for stop in stops) == pytest.approx(stops[-1].total_ratio)
    assert sum(stop.gain for stop in stops) == pytest.approx(stops[-1].total_gain, abs=1e-12 * stops[0].time)
    for stop in stops:  # the end of an arrow is never above the roof
        assert stop.time >= stop.floor
        assert stop.low <= stop.time * (1 + 1e-12)
        assert stop.high >= stop.time * (1 - 1e-12)


@law(50)
@given(st.floats(0, 1), st.floats(0.01, 1e6))
def test_a_program_gains_no_more_than_the_share_allows(share: float, ratio: float) -> None:
    gained = amdahl(share, ratio)
    assert gained == pytest.approx(1 / (1 - share + share / ratio))
    assert gained <= amdahl(share, math.inf) * (1 + 1e-12)
    assert amdahl(share, 1) == pytest.approx(1)


def test_half_a_program_can_get_twice_as_fast_at_most() -> None:
    assert amdahl(0.5, math.inf) == 2
    assert amdahl(1, math.inf) == math.inf
    stops = chain("batch=8", case("linear", H200, **LAYER))
    told = whatif.document(stops, 0.5)
    assert told["program_limit"] == 2
    assert told["program_ratio"] == pytest.approx(1 / (0.5 + 0.5 / stops[-1].total_ratio))
    for share, ratio in ((1.1, 2), (-0.1, 2), (0.5, 0)):
        with pytest.raises(InputError):
            amdahl(share, ratio)


# -- asking for changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no change is named"),
        (" , ", "no change is named"),
        ("quantise=fp8", "did you mean quantize"),
        ("quantize", "quantize needs a value; write quantize="),
        ("batch=", "batch needs a value"),
        ("batch=2.5", "whole number of at least 1"),
        ("batch=0", "whole number of at least 1"),
        ("bandwidth=-1", "must be a factor above 0|is not a number"),
        ("bandwidth=fast", "is not a number"),
        ("quantize=fp7", "unknown dtype"),
        ("machine=h2000", "unknown machine"),
        ("fuse=nonsense", "unknown op"),
        ("fuse=above:gelu", "the side is before or after"),
        ("graph=3 GB", "asked for is a time"),
        ("overhead=1", "takes no value"),
        ("efficiency=120%", r"must be in \(0, 1\]"),
        ("speculate=4:1", "from 0 to below 1"),
        ("speculate=x", "is not a number"),
    ],
)
def test_text_that_is_no_chain_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "start", "message"),
    [
        ("quantize=kv:fp8", case("gemm", m=8, n=8, k=8), "gemm has no kv; it has dtype, weights, out_dtype"),
        ("quantize=int4", case("gemm", H200, m=8, n=8, k=8), "quantize to int4: h200-sxm does no int4 arithmetic"),
        ("batch=2", case("gemv", m=8, n=8), "has no batch size"),
        ("tile=64", case("softmax", rows=8, cols=8), "no tiles of a chosen size"),
        ("split=2", case("softmax", rows=8, cols=8), "softmax cannot be split"),
        ("fuse=rmsnorm", case("gelu", n=64), "its sizes do not follow from gelu"),
        ("fuse=gemm", case("gemm", m=8, n=8, k=8), "its sizes do not follow from gemm"),
        ("split=2", case("linear", PLAIN, **LAYER), "no link"),
    ],
)
def test_a_change_that_cannot_be_made_says_why(text: str, start: Case, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chain(text, start)


def test_a_what_if_starts_from_one_case() -> None:
    with pytest.raises(InputError, match="has an axis of sizes"):
        case("gemm", m=[1.0, 2.0], n=8, k=8)
    with pytest.raises(InputError, match="an op with its sizes, or from one Work"):
        Case(PLAIN)
    with pytest.raises(UnknownName):
        parse("nothing=1")


def test_every_kind_of_change_says_how_it_is_written() -> None:
    for name, kind in whatif.CHANGES.items():
        assert kind.usage.startswith(name)
        assert kind.does
        assert kind.needs_value is not ("[=" in kind.usage or "=" not in kind.usage)


def test_a_chain_is_a_document_of_plain_values() -> None:
    stops = chain("fuse=rmsnorm,quantize=fp8,machine=b200-sxm", case("linear", H200, **LAYER))
    told = json.loads(json.dumps(whatif.document(stops, 0.25), allow_nan=False))
    assert told["case"] == "rmsnorm + linear"
    assert [row["name"] for row in told["stops"]] == ["baseline", "fuse rmsnorm", "quantize to fp8", "on b200-sxm"]
    for row, stop in zip(told["stops"], stops, strict=True):
        assert row["unit_time_us"] == pytest.approx(stop.unit_time * 1e6)
        assert row["low_us"] <= row["time_us"] <= row["high_us"]
    assert told["total_ratio"] == pytest.approx(stops[0].unit_time / stops[-1].unit_time)


# -- pictures and tables --------------------------------------------------------------------------------------


def test_the_chart_has_a_numbered_arrow_for_every_move_and_a_roof_for_every_machine() -> None:
    stops = chain("quantize=fp8,compute=2,batch=8,machine=h100-sxm", case("linear", H200, **LAYER))
    chart = CHARTS["changes"](H200, stops=stops).charts[0]
    # the second change moves nothing, so the third arrow follows the first
    assert [arrow.label for arrow in chart.arrows] == ["1", "3", "4"]
    for arrow, stop in zip(chart.arrows, (stops[1], stops[3], stops[4]), strict=True):
        assert arrow.end == (stop.intensity, stop.rate)
    assert "2  compute x2: no effect, hbm is the limiter (memory-bound) and is not affected" in chart.notes
    assert {line.group for line in chart.lines if line.role == "peak"} == {
        "h200-sxm",
        "h200-sxm compute x2",
        "h100-sxm",
    }
    for point in chart.points:
        if point.role == "expected":
            assert chart.x.range[0] <= point.x <= chart.x.range[1]
            assert chart.y.range[0] <= point.y <= chart.y.range[1]
    left = [point for point in chart.points if point.role == "floor"]
    assert [point.y for point in left] == [pytest.approx(stops[-1].flops / stops[-1].floor)]
    assert read(document(chart)) == chart


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "text",
    [
        "fuse=rmsnorm,quantize=fp8,batch=8,compute=2,graph,machine=b200-sxm",
        "batch=2,batch=2,batch=2,batch=2,batch=2,batch=2,batch=2,batch=2",
        "bandwidth=1.1,bandwidth=1.1,bandwidth=1.1,compute=3",
    ],
)
def test_the_texts_of_a_path_do_not_overlap(text: str, theme: str) -> None:
    stops = chain(text, case("linear", H200, **LAYER))
    assert_legible(mpl.draw(CHARTS["changes"](H200, stops=stops), theme))


def test_versions_are_a_path_with_the_gain_of_every_step() -> None:
    flops = 2.0 * 4096**3
    path = [
        Version("naive", 5.2e-3, flops, 8e9),
        Version("tiled", 6e-4, flops, 3e8),
        Version("pipelined", 2e-4, flops, 3e8),
    ]
    chart = versions(H200, path, engine="tensor.bf16")
    assert [arrow.label for arrow in chart.arrows] == ["8.7x", "3.0x"]  # 5.2/0.6 and 0.6/0.2
    seen = [point for point in chart.points if point.role == "observed"]
    assert [point.x for point in seen] == [flops / item.bytes for item in path]
    assert [point.group for point in seen] == [
        "memory-bound",
        "compute-bound",
        "compute-bound",
    ]  # the roof changes at the ridge
    assert_legible(mpl.draw(chart))
    assert "26x the first" in " ".join(chart.notes)
    assert "above the roof" in " ".join(versions(H200, [replace(path[0], time=1e-6)]).notes)
    with pytest.raises(InputError, match="time of version 'naive'"):
        versions(H200, [replace(path[0], time=0.0)])
    with pytest.raises(InputError, match="no version is given"):
        versions(H200, [])


def test_observations_become_versions_by_what_was_counted_or_else_by_their_algorithm() -> None:
    counted = Observation(
        "a", "a", (1.0, 3.0, 2.0), flops={"tensor.bf16": 8.0, "vector.fp32": 2.0}, bytes={"hbm": 5.0, "l2": 9.0}
    )
    assert version(counted, H200) == Version("a", 2.0, 10.0, 5.0)
    plain = Observation("b", "b", (1.0,), flops={"all": 8.0}, bytes={"main": 4.0})
    assert version(plain, H200).bytes == 4.0
    told = Observation("c", "c", (1.0,), work=ops.gemm(4, 4, 4))
    assert version(told, H200) == Version("c", 1.0, 2 * 4**3, 3 * 16 * 2)
    with pytest.raises(InputError, match="version 'd' has no flops and bytes"):
        version(Observation("d", "d", (1.0,)), H200)


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "tpu-v5e", "epyc-9654", "rtx-4090"])
def test_both_charts_have_an_example_on_any_machine(name: str) -> None:
    machine = rl.machine(name)
    for kind in ("changes", "versions"):
        chart = CHARTS[kind](machine).charts[0]
        assert len(chart.arrows) >= 2
        assert_legible(mpl.draw(chart))
        assert len(draw(chart, 80, 22).splitlines()) > 22


def test_work_without_flops_is_in_the_table_only() -> None:
    stops = chain("bandwidth=2", case("copy", n=10**8))
    assert stops[-1].direction == "none"
    assert stops[-1].ratio == pytest.approx(2, rel=0.01)
    with pytest.raises(InputError, match="does no flops"):
        CHARTS["changes"](PLAIN, stops=stops)
    assert "copy" in changes_lines(stops)[1]


def test_the_table_tells_time_gain_and_reason() -> None:
    stops = chain("batch=8,compute=2", case("linear", H200, **LAYER))
    table = changes_table(stops, 0.5)
    assert [row["time"] for row in table.rows] == [stop.unit_time for stop in stops]
    assert table.rows[0]["gain"] is None
    text = table.text()
    assert "2 compute x2: hbm is the limiter (memory-bound) and is not affected" in text
    assert "kernel takes 50 % of the program time: program speedup is at most 2x (Amdahl)" in text


def test_a_balanced_case_is_not_balanced_bound_and_a_sort_is_not_limited_by_its_bytes() -> None:
    """`whatif` said `hbm is the limiter (balanced-bound)`, and of a sort that twice the bandwidth does not affect the bandwidth."""
    balanced = chain("bandwidth=1.001", case("gemm", rl.machine("h100-sxm"), m=345, n=4096, k=4096))
    assert balanced[0].bound_words == "balanced"
    assert balanced[1].why == "hbm is the limiter (balanced); then tensor.bf16 takes as long"
    waits = chain("bandwidth=2", case("sort", rl.machine("grace"), rows=1000, cols=1000))
    assert waits[0].bound_words == "latency-bound"
    assert waits[1].why == "steps one after the other take most of the time (latency-bound)"


def test_twice_the_bandwidth_saves_a_sort_on_chip_its_bytes_and_no_more() -> None:
    """A sort of 4096 values waits for its steps: it was 1.91x faster, as if its bytes were all that it does."""
    before, after = chain("bandwidth=2", case("sort", rl.machine("h200-sxm"), rows=4096, cols=4096))
    saved = float(before.prediction.floor) - float(after.prediction.floor)
    assert before.unit_time - after.unit_time == pytest.approx(saved)
    assert 1 < after.ratio < 1.1
