"""The laws: what holds for every op, every size and every machine."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.bound import bound
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.core.figure import UNCERTAINTY, Level
from ridgeline.core.machine import Machine, two_number
from ridgeline.core.roofline import attainable, batch_intensity, critical_batch, ridge, saturation
from ridgeline.core.units import axis, parse, show
from ridgeline.core.work import Program, Step, Work
from ridgeline.prediction.expected import Expected
from ridgeline.prediction.flat import efficiency
from ridgeline.prediction.predict import predict
from ridgeline.prediction.turning import turning_point
from ridgeline.programs import ops
from ridgeline.programs.ops import OPS, Op
from strategies import COLLECTIVES, calls, figure, law, machines, rates, sweeps

CLOSE = 1e-12
NAMES = tuple(sorted(OPS))
real = cache(rl.machine)
LOCAL = tuple(name for name in NAMES if name not in COLLECTIVES)


def near(one: Any, other: Any, rel: float = CLOSE) -> bool:
    return bool(np.allclose(one, other, rtol=rel, atol=0))


def alike(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Two tables of counts with the same entries; an entry of nothing is no entry."""
    return all(near(one.get(key, 0.0), other.get(key, 0.0)) for key in {**one, **other})


# -- the algebra of work ------------------------------------------------------------------------------------------


WRITING, READING = (tuple(sorted(set(OPS) - {name})) for name in ("custom", "fill"))  # that write, that read tensors


@given(first=calls(names=WRITING), then=calls(names=READING), keep=st.booleans(), data=st.data())
@law(150)
def test_fusing_removes_one_write_and_one_read_and_no_flops(first: Any, then: Any, keep: bool, data: Any) -> None:
    """Bytes never grow; what goes is the write of the intermediate and its read, at every level (S0-73, S2-33)."""
    one, two = first[0](**first[1]), then[0](**then[1])
    through = data.draw(st.sampled_from(sorted({tensor for _, tensor, way in one.moves if way == "write"})))
    into = data.draw(st.sampled_from(sorted({tensor for _, tensor, way in two.moves if way == "read"})))
    if one.tensor_sizes()[through] != two.tensor_sizes()[into]:
        with pytest.raises(InputError, match="not one tensor"):
            one.fuse(two, through, into, keep=keep)
        return
    fused = one.fuse(two, through, into, keep=keep)
    apart = one + two
    assert alike(fused.by_engine(), apart.by_engine())
    assert near(fused.special, apart.special)
    for level in set(one.levels()) | set(two.levels()):
        written = 0.0 if keep else one.moves.get((level, through, "write"), 0.0)
        read = two.moves.get((level, into, "read"), 0.0)
        assert near(fused.bytes_at(level), apart.bytes_at(level) - written - read, rel=1e-9)
        assert fused.bytes_at(level) <= apart.bytes_at(level)
    assert fused.waits["launch"] <= apart.waits["launch"]
    assert fused.footprint >= 0


@given(call=calls(), times=st.integers(1, 1000))
@law(80)
def test_repeating_keeps_the_footprint_and_multiplies_the_rest(call: Any, times: int) -> None:
    work = call[0](**call[1])
    again = work.repeat(times)
    assert again.footprint == work.footprint
    assert alike(again.counts, {key: value * times for key, value in work.counts.items()})
    assert alike(again.moves, {key: value * times for key, value in work.moves.items()})
    assert alike(again.waits, {key: value * times for key, value in work.waits.items()})
    assert near(again.special, work.special * times)


@given(call=calls(), size=st.integers(1, 1000))
@law(80)
def test_batching_keeps_the_waits_and_multiplies_the_rest(call: Any, size: int) -> None:
    work = call[0](**call[1])
    many = work.batch(size)
    assert many.waits == work.waits
    assert near(many.footprint, work.footprint * size)
    assert near(many.flops, work.flops * size)
    assert alike(many.moves, {key: value * size for key, value in work.moves.items()})


@given(call=calls())
@law(60)
def test_twice_is_the_sum_with_itself(call: Any) -> None:
    work = call[0](**call[1])
    both, twice = work + work, work.repeat(2)
    assert alike(both.counts, twice.counts)
    assert alike(both.moves, twice.moves)
    assert alike(both.waits, twice.waits)
    assert (both.special, both.footprint) == (twice.special, twice.footprint)


@given(one=calls(), two=calls(), three=calls())
@law(40)
def test_addition_is_associative_and_its_order_does_not_matter(one: Any, two: Any, three: Any) -> None:
    a, b, c = (op(**values) for op, values in (one, two, three))
    for left, right in (((a + b) + c, a + (b + c)), (a + b, b + a), (Work() + a, a), (a, a + Work())):
        assert alike(left.counts, right.counts)
        assert alike(left.moves, right.moves)
        assert alike(left.waits, right.waits)
        assert near(left.footprint, right.footprint)


@given(call=calls(), prefix=st.text("abc", min_size=1, max_size=3))
@law(30)
def test_renaming_changes_names_only(call: Any, prefix: str) -> None:
    work = call[0](**call[1])
    renamed = work.rename(prefix)
    assert list(renamed.moves.values()) == list(work.moves.values())
    assert (renamed.counts, renamed.waits, renamed.footprint) == (work.counts, work.waits, work.footprint)


@given(call=calls())
@law(60)
def test_special_results_are_among_the_vector_flops(call: Any) -> None:
    work = call[0](**call[1])
    assert work.special <= sum(value for (engine, _), value in work.by_engine().items() if engine == "vector")


@given(machine=machines(), steps=st.lists(st.tuples(calls(), st.integers(1, 5)), min_size=1, max_size=4))
@law(40)
def test_the_times_of_a_program_add_up(machine: Machine, steps: list[Any]) -> None:
    """Sums over the steps, never a verdict of the averages: fusing everything could only be faster."""
    parts = tuple(Step(f"s{i}", op(**values), count) for i, ((op, values), count) in enumerate(steps))
    whole = predict(Program(parts), machine)
    each = [(predict(step.work, machine), step.count) for step in parts]
    assert near(whole.floor, sum(item.floor * count for item, count in each))
    assert near(whole.time, sum(item.time * count for item, count in each))
    assert near(whole.flops, Program(parts).total().flops)
    assert whole.floor >= bound(Program(parts).total(), machine).floor * (1 - CLOSE)


# -- the floor ----------------------------------------------------------------------------------------------------


@given(call=calls(largest=4096), machine=machines())
@law(150)
def test_the_floor_is_the_largest_term_and_beats_no_roof(call: Any, machine: Machine) -> None:
    work = call[0](**call[1])
    found = bound(work, machine)
    peaks: dict[str, float] = {}
    for (asked, dtype), flops in work.by_engine().items():  # flops that share a unit share its peak
        name = machine.engine(asked, dtype)
        peaks[name] = peaks.get(name, 0.0) + flops
    terms = [flops / machine.peaks[name].stated for name, flops in peaks.items()]
    terms += [work.special / machine.peaks["special.fp32"].stated]
    for level in work.levels():
        rate = machine.links[0].per_direction if level == "link" else machine.level(level).bandwidth
        terms.append(work.bytes_at(level) / rate.stated)
    assert all(found.floor >= term * (1 - CLOSE) for term in terms)
    assert near(found.floor, max(terms))
    assert not found.notes


@given(call=calls(largest=4096), machine=machines())
@law(150)
def test_the_attainable_rate_is_a_minimum_of_rates(call: Any, machine: Machine) -> None:
    """P = min(P_e F/F_e, BW_l F/B_l), never a sum over levels (E-20)."""
    work = call[0](**call[1])
    found = bound(work, machine)
    if work.flops == 0:
        assert found.attainable == 0
        return
    rates_ = [work.flops / term.amount * term.ceiling.value for term in found.terms.values() if term.amount > 0]
    assert near(found.attainable, min(rates_), rel=1e-9)


@given(call=calls(largest=4096), machine=machines(), given_=st.none() | st.floats(0.01, 1))
@law(100)
def test_time_is_never_under_the_floor(call: Any, machine: Machine, given_: float | None) -> None:
    prediction = predict(call[0](**call[1]), machine, efficiency=given_)
    assert prediction.time >= prediction.floor
    assert 0 < prediction.efficiency <= 1


@given(
    call=calls(names=LOCAL, largest=4096, without=("dtype", "tile_level")),
    name=st.sampled_from(["h100-sxm", "a100-sxm-80gb", "mi300x", "t4", "l4"]),
)
@law(80)
def test_time_is_never_under_the_floor_on_real_machines(call: Any, name: str) -> None:
    """The efficiencies of the catalog are fractions, too."""
    values = {"dtype": "fp16"} | call[1]
    prediction = predict(call[0](**values), real(name))
    assert prediction.time >= prediction.floor > 0


@given(call=calls(largest=4096), machine=machines())
@law(100)
def test_bound_and_limiter_name_the_largest_term(call: Any, machine: Machine) -> None:
    found = bound(call[0](**call[1]), machine)  # without a launch latency nothing is overhead
    assert found.terms[found.limiter].time == found.floor
    side = found.terms[found.limiter].side
    assert found.bound in (side, "balanced")
    shorter = min(found.compute_time, found.memory_time)
    within = math.hypot(UNCERTAINTY["stated"], UNCERTAINTY["stated"])  # two sigma of the ratio of two stated ceilings
    assert (found.bound == "balanced") == (shorter > 0 and math.log(found.floor / shorter) <= within)
    assert 0.5 <= found.confidence <= 1


@given(call=calls(largest=64), machine=machines(), share=st.floats(0, 3))
@law(100)
def test_overhead_is_a_floor_under_the_launches(call: Any, machine: Machine, share: float) -> None:
    """Whatever the latency: shorter than the floor, and up to three times as long."""
    work = call[0](**call[1])
    launch = share * bound(work, machine).floor / work.waits["launch"]
    prediction = predict(work, machine, launch=launch)
    assert (prediction.bound == "overhead") == (prediction.floor < launch * work.waits["launch"])
    assert (prediction.limiter == "launch") == (prediction.bound == "overhead")
    assert prediction.time >= launch * work.waits["launch"]


@given(call=calls(names=LOCAL), machine=machines())
@law(60)
def test_doubling_every_bandwidth_halves_the_memory_terms(call: Any, machine: Machine) -> None:
    def doubled(level: Level) -> Level:
        return replace(level, bandwidth=figure("B/s", 2 * level.bandwidth.stated))

    work = call[0](**call[1])
    before = bound(work, machine)
    after = bound(work, replace(machine, levels=tuple(doubled(level) for level in machine.levels)))
    for name, term in before.terms.items():
        assert after.terms[name].time == (term.time / 2 if term.side == "memory" else term.time)
    assert before.floor / 2 <= after.floor <= before.floor


@given(peak=rates, bandwidth=rates, at=st.floats(1e-6, 1e9), more=st.floats(1, 1e3))
@law(200)
def test_attainable(peak: float, bandwidth: float, at: float, more: float) -> None:
    """Monotone in intensity, never above either roof, and both roofs meet at the ridge (S0-09)."""
    rate = attainable(at, peak, bandwidth)
    assert rate <= attainable(at * more, peak, bandwidth)
    assert rate <= peak
    assert rate <= bandwidth * at
    corner = ridge(peak, bandwidth)
    assert near(attainable(corner, peak, bandwidth), peak, rel=1e-9)
    step = 1e-9
    sides = [float(attainable(corner * factor, peak, bandwidth)) for factor in (1 - step, 1 + step)]
    assert near(sides[0], sides[1], rel=3 * step)
    assert near(attainable(at, peak, bandwidth), peak if at > corner else bandwidth * at, rel=1e-9)


# -- arrays -------------------------------------------------------------------------------------------------------

FIELDS = ("flops", "bytes", "intensity", "floor", "time", "bound", "limiter", "attainable", "efficiency", "sure")


def per_case(value: Any, count: int) -> np.ndarray:
    return np.broadcast_to(np.asarray(value), (count,))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@law(12)
def test_an_array_call_is_a_loop_of_scalar_calls(name: str, data: Any) -> None:
    op, words, rows = data.draw(sweeps(names=(name,), largest=2048))
    machine = data.draw(machines())
    columns = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
    together = op(**words, **columns)
    whole = predict(together, machine)
    for index, row in enumerate(rows):
        alone = predict(op(**words, **row), machine)
        for field in FIELDS:
            found, right = per_case(getattr(whole, field), len(rows))[index], getattr(alone, field)
            assert found == right if isinstance(right, str) else near(found, right), field
        assert near(per_case(together.footprint, len(rows))[index], alone.work.footprint)
        assert near(per_case(together.special, len(rows))[index], alone.work.special)
        for key in {**together.moves, **alone.work.moves}:
            pair = per_case(together.moves.get(key, 0.0), len(rows))[index], alone.work.moves.get(key, 0.0)
            assert near(*pair), key
    documents = list(whole.rows())
    assert len(documents) == len(rows)
    for document, row in zip(documents, rows, strict=True):
        assert all(document["shape"][key] == row[key] for key in row if OPS[name].params[key].kind == "Size")


@pytest.mark.parametrize("name", NAMES)
def test_whole_numbers_of_any_kind_count_alike(name: str) -> None:
    """Python and numpy integers of every width, floats and lists: one answer, and none of them wraps."""
    op = OPS[name]
    values = {key: 40_000 for key, param in op.params.items() if param.required and param.kind == "Size"}
    if name == "moe":
        values |= {"topk": 2}
    right = op(**values)
    for kind in (np.uint16, np.int32, np.int64, np.float32, float):
        found = op(**{key: kind(value) for key, value in values.items()})
        assert (found.flops, found.bytes) == (right.flops, right.bytes)
    listed = op(**{key: [value, value] for key, value in values.items()})
    np.testing.assert_array_equal(np.broadcast_to(listed.bytes, 2), [right.bytes] * 2)


@given(
    call=calls(names=("gemm", "bmm", "linear", "softmax", "embedding", "moe")),
    first=st.lists(st.integers(1, 99), min_size=1, max_size=4),
    second=st.lists(st.integers(1, 99), min_size=1, max_size=4),
    machine=machines(),
)
@law(60)
def test_two_arrays_broadcast_to_a_grid(call: Any, first: list[int], second: list[int], machine: Machine) -> None:
    op, values = call
    down, across = [name for name in op.params if op.params[name].required][-2:]
    grid = predict(op(**{**values, down: np.array(first)[:, None], across: np.array(second)[None, :]}), machine)
    shape = (len(first), len(second))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            alone = predict(op(**{**values, down: a, across: b}), machine)
            for field in FIELDS:
                found, right = np.broadcast_to(np.asarray(getattr(grid, field)), shape)[i, j], getattr(alone, field)
                assert found == right if isinstance(right, str) else near(found, right), field


# -- growth -------------------------------------------------------------------------------------------------------

# Sizes with which an op need not grow, and why. Everything else of kind Size or Count must never lower flops or bytes.
NO_GROWTH = {
    ("conv2d", "kernel"): "an even kernel shrinks the output by a row, so 3 to 4 may take fewer flops",
    ("conv2d", "stride"): "a longer stride leaves outputs out",
    ("conv2d", "dilation"): "reaches further, so fewer positions fit without padding",
    ("conv2d", "groups"): "more groups connect fewer channels",
    ("conv2d", "padding"): "shifts which pixels a long stride leaves out",
    **{
        (f"conv2d_{gradient}", size): "as in conv2d"
        for gradient in ("dgrad", "wgrad")
        for size in ("kernel", "stride", "groups", "padding")
    },
    **{
        (f"max_pool2d{backward}", size): "as in conv2d"
        for backward in ("", "_backward")
        for size in ("kernel", "stride", "padding")
    },
    ("conv_transpose2d", "groups"): "more groups connect fewer channels",
    ("conv_transpose2d", "padding"): "cuts off outputs",
    ("gemm", "tile"): "larger tiles exist to move less",
    ("bmm", "tile"): "larger tiles exist to move less",
    ("attention", "tile"): "larger tiles exist to move less",
}
# More ranks: more on the link and more to add per rank, but a smaller part of its own to read or write.
LINK_ONLY = {("all_gather", "ranks"), ("reduce_scatter", "ranks")}
SIZES = [
    (op.name, name)
    for op in OPS.values()
    for name, param in op.params.items()
    if param.kind in ("Size", "Count") and (op.name, name) not in NO_GROWTH
]


def grown(op: Op, name: str, values: dict[str, Any], extra: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values, and the same with one size larger; both sides stay valid."""
    small = dict(values)
    if op.name in ("attention", "attention_backward"):
        if name == "kv_heads":  # the same heads, shared by fewer
            small["heads"] = values["kv_heads"] * (1 + extra)
            return small, small | {"kv_heads": values["kv_heads"] * (1 + extra)}
        if name == "seq_q" and "seq_kv" in values:
            small["seq_kv"] = max(values["seq_kv"], values["seq_q"]) + extra
        if name == "heads":
            extra *= values.get("kv_heads", 1)
    elif op.name.startswith("conv") and name in ("c_in", "c_out"):
        extra *= values.get("groups", 1)
    elif op.name == "topk" and name == "k":
        small["cols"] = values["cols"] + extra
    elif op.name == "moe" and name in ("topk", "active"):
        small |= {key: values[key] + extra for key in ("experts", "tokens")}  # which leaves room for so many more
        if name == "topk" and "active" in values:
            small["active"] = values["active"] + extra
    return small, small | {name: values[name] + extra}


@pytest.mark.parametrize(("op_name", "name"), SIZES)
@given(data=st.data())
@law(15)
def test_more_of_anything_is_never_less_work(op_name: str, name: str, data: Any) -> None:
    op, values = data.draw(calls(names=(op_name,), needed=(name,)))
    before, after = (op(**each) for each in grown(op, name, values, data.draw(st.integers(1, 64), label="extra")))
    assert after.flops >= before.flops * (1 - CLOSE)
    for level in {*before.levels(), *after.levels()}:
        if (op_name, name) in LINK_ONLY and level != "link":
            continue
        assert after.bytes_at(level) >= before.bytes_at(level) * (1 - CLOSE), level


@pytest.mark.parametrize("key", sorted(NO_GROWTH))
def test_the_exceptions_name_parameters_there_are(key: tuple[str, str]) -> None:
    assert key[1] in OPS[key[0]].params


@pytest.mark.parametrize("name", NAMES)
def test_counts_never_wrap(name: str) -> None:
    """Every size at 2^53, the largest whole number float64 still tells from its neighbours."""
    op = OPS[name]
    most = 2**53
    values: dict[str, Any] = {key: most for key, param in op.params.items() if param.required and param.kind == "Size"}
    work = op(**values)
    assert math.isfinite(work.flops)
    assert 0 < work.bytes < math.inf
    assert work.bytes >= most
    smaller = op(**dict.fromkeys(values, 2**20))
    assert work.flops >= smaller.flops
    assert work.bytes > smaller.bytes
    array = op(**{key: np.array([2**20, most]) for key in values})
    np.testing.assert_allclose(np.broadcast_to(array.bytes, 2), [smaller.bytes, work.bytes])
    np.testing.assert_allclose(np.broadcast_to(array.flops, 2), [smaller.flops, work.flops])


# -- traffic ------------------------------------------------------------------------------------------------------

dims = st.integers(1, 600)


@given(
    m=dims, n=dims, k=dims, tile=st.integers(1, 256), batch=st.integers(1, 4), level=st.sampled_from(["l1", "l2", "l3"])
)
@law(100)
def test_bytes_grow_towards_the_core(m: int, n: int, k: int, tile: int, batch: int, level: str) -> None:
    """compulsory <= tiled <= no reuse, and a tile's own level never sees less than the memory behind it (E-23)."""
    shape = {"batch": batch, "m": m, "n": n, "k": k}
    least = ops.bmm(**shape)
    tiled = ops.bmm(**shape, traffic="tiled", tile=tile)
    most = ops.bmm(**shape, traffic="no_reuse")
    assert least.bytes <= tiled.bytes <= most.bytes
    layered = ops.bmm(**shape, tile=tile, tile_level=level)
    assert layered.bytes == least.bytes
    assert layered.bytes_at(level) == tiled.bytes  # the same model, at the level that feeds the tiles
    assert layered.bytes_at(level) >= layered.bytes
    assert least.flops == tiled.flops == most.flops == layered.flops


@given(call=calls(names=("attention",), needed=("tile",), without=("variant",)))
@law(60)
def test_flash_tiles_cross_l2_at_least_once(call: Any) -> None:
    work = call[0](**call[1])
    assert work.bytes_at("l2") >= work.bytes * (1 - CLOSE)


@given(n=st.integers(1, 64), tile=st.integers(1, 16))
@law(40)
def test_tiles_that_divide_reach_the_textbook_formula(n: int, tile: int) -> None:
    """2 N^3 / T + N^2 elements (E-23)."""
    side = n * tile
    work = ops.gemm(side, side, side, traffic="tiled", tile=tile, dtype="fp32")
    assert near(work.bytes, 4 * (2 * side**3 / tile + side**2))


@given(n=dims, seq=dims, window=dims)
@law(100)
def test_visible_pairs(n: int, seq: int, window: int) -> None:
    """A window at least as long as the sequence is no window; one of a single key leaves one pair per query."""
    total = seq + n
    causal = ops.attention(1, 1, n, 1, seq_kv=total, causal=True)
    assert ops.attention(1, 1, n, 1, seq_kv=total, causal=True, window=total).flops == causal.flops
    assert ops.attention(1, 1, n, 1, seq_kv=total, causal=True, window=1).flops == 9 * n  # 4 D + 5 with D = 1
    windowed = ops.attention(1, 1, n, 1, seq_kv=total, causal=True, window=window)
    assert windowed.flops == 9 * sum(min(total - n + i + 1, window) for i in range(n))
    assert windowed.bytes <= causal.bytes


@given(bytes_=st.integers(1, 10**12), ranks=st.integers(2, 4096), dtype=st.sampled_from(["bf16", "fp32", "fp8"]))
@law(40)
def test_all_reduce_is_reduce_scatter_then_all_gather(bytes_: int, ranks: int, dtype: str) -> None:
    values = {"bytes": bytes_, "ranks": ranks, "dtype": dtype}
    whole, first, second = ops.all_reduce(**values), ops.reduce_scatter(**values), ops.all_gather(**values)
    assert near(whole.bytes_at("link"), first.bytes_at("link") + second.bytes_at("link"))
    assert near(whole.flops, first.flops + second.flops)
    assert near(whole.waits["hop"], first.waits["hop"] + second.waits["hop"])


# -- batch --------------------------------------------------------------------------------------------------------

fans = st.integers(1, 20_000)
WIDTHS = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0}
RESULTS = {"fp8": 2.0, "int8": 4.0}  # others are stored as they are multiplied
WEIGHTS = {"fp32": 4.0, "bf16": 2.0, "fp8": 1.0, "int4": 0.5, "int4_g128": 4.125 / 8}


@given(
    batch=fans,
    fan_in=fans,
    fan_out=fans,
    dtype=st.sampled_from(sorted(WIDTHS)),
    weights=st.none() | st.sampled_from(sorted(WEIGHTS)),
)
@law(150)
def test_the_closed_form_is_the_counted_linear_layer(
    batch: int, fan_in: int, fan_out: int, dtype: str, weights: str | None
) -> None:
    """AI(B) = 2 B W / (w W + B (d in + e out)), S0-78 and E-25."""
    counted = ops.linear(batch, fan_in, fan_out, dtype=dtype, weights=weights).intensity()
    width, result = WIDTHS[dtype], RESULTS.get(dtype)
    assert near(batch_intensity(batch, fan_in, fan_out, width, weights and WEIGHTS[weights], result), counted)
    if weights is None and result is None:
        assert near((2 / width) * batch / (1 + batch / fan_in + batch / fan_out), counted)
    assert counted < saturation(fan_in, fan_out, width, result)


@given(
    at=st.floats(0.05, 2000),
    fan_in=fans,
    fan_out=fans,
    width=st.sampled_from([1.0, 2.0, 4.0]),
    weights=st.none() | st.sampled_from([0.5, 1.0, 2.0]),
    result=st.none() | st.sampled_from([1.0, 2.0, 4.0]),
)
@example(152.0, 4096, 4096, 2.0, None, None)
@example(152.0, 256, 256, 2.0, None, None)
@example(1024.0, 4096, 4096, 2.0, None, None)  # exactly 2048
@example(2048.0, 4096, 4096, 2.0, None, None)  # the saturation itself is never reached
@law(300)
def test_critical_batch_is_the_smallest_that_reaches_the_ridge(
    at: float, fan_in: int, fan_out: int, width: float, weights: float | None, result: float | None
) -> None:
    """Looked for one by one around the answer, in exact arithmetic."""

    def exact(batch: int) -> Fraction:
        size = fan_in * fan_out
        weight_bytes = Fraction(width if weights is None else weights) * size
        return Fraction(2 * batch * size) / (weight_bytes + batch * moved)

    target = Fraction(at)
    moved = Fraction(width) * fan_in + Fraction(width if result is None else result) * fan_out
    found = critical_batch(at, fan_in, fan_out, width, weights, result)
    limit = Fraction(2 * fan_in * fan_out) / moved
    if math.isinf(found):
        assert limit <= target * (1 + Fraction(1, 10**12))
        return
    assume(found < 1e9)  # nearer the saturation one part in 1e12 is a batch or more
    assert found == int(found) >= 1
    slack = Fraction(1, 10**11)
    assert exact(int(found)) >= target * (1 - slack)
    if found > 1:
        assert exact(int(found) - 1) < target


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "batch"),
    [(4096, 4096, 165), (4096, 16384, 160), (768, 768, 252), (768, 3072, 202), (256, 256, math.inf)],
)
def test_critical_batches_that_are_safe_to_pin(fan_in: int, fan_out: int, batch: float) -> None:
    assert critical_batch(152.0, fan_in, fan_out) == batch


def test_critical_batch_over_an_array() -> None:
    found = critical_batch(152.0, np.array([4096, 256]), np.array([4096, 256]))
    np.testing.assert_array_equal(found, [165, np.inf])


@given(fan_in=st.integers(64, 8192), fan_out=st.integers(64, 8192), at=st.floats(1, 500))
@law(50)
def test_the_turning_point_of_a_layer_is_its_critical_batch(fan_in: int, fan_out: int, at: float) -> None:
    machine = two_number(at * 1e12, 1e12)
    where = turning_point(ops.linear, {"in_features": fan_in, "out_features": fan_out}, machine)
    assert where is not None
    right = critical_batch(machine.ridge("peak"), fan_in, fan_out)
    assume(not 1e9 < right < math.inf)  # so near the saturation, rounding decides
    assert where[:2] == ("batch", pytest.approx(right, rel=1e-9))


# -- formulas -------------------------------------------------------------------------------------------------------

SYMBOLS = {"Sq": "seq_q", "Skv": "seq_kv", "D": "head_dim", "N": "ranks", "in": "in_features", "out": "out_features"}
FUNCTIONS = {"ceil": math.ceil, "floor": math.floor, "min": min}


def evaluate(formula: str, values: dict[str, float]) -> float:
    """A formula as the explain output prints it: neighbours multiply, ^ is a power."""
    tokens = re.findall(r"[A-Za-z_]+|[0-9.]+|[-+/^(),]", formula)
    text, before = "", ""
    for token in tokens:
        starts = token == "(" or token[0].isalnum()
        ends = before == ")" or (before != "" and before[0].isalnum() and before not in FUNCTIONS)
        name = token if token in FUNCTIONS else SYMBOLS.get(token, token)
        text += ("*" if starts and ends else "") + (f"v[{name!r}]" if name in values else name.replace("^", "**"))
        before = token
    return float(eval(text, {"__builtins__": {}}, {"v": values, **FUNCTIONS}))


def tile_keys(known: dict[str, float], causal: bool) -> int:
    """Keys read by the query tiles, tile by tile: all that any row of the tile may see."""
    before, total = int(known["seq_kv"] - known["seq_q"]), 0
    for start in range(0, int(known["seq_q"]), int(known["tile"])):
        rows = range(start, min(start + int(known["tile"]), int(known["seq_q"])))
        window = known.get("window", known["seq_kv"])
        seen = {
            key
            for row in rows
            for key in range(int(known["seq_kv"]))
            if not causal or before + row - window < key <= before + row
        }
        total += len(seen)
    return total


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@law(15)
def test_every_formula_evaluates_to_its_addend(name: str, data: Any) -> None:
    """What `explain` prints beside a count is the count: 2 m n k for the flops, m k x 2 B for a tensor."""
    op, values = data.draw(calls(names=(name,)))
    work = op(**values)
    known: dict[str, float] = {
        key: param.default for key, param in op.params.items() if param.kind in ("Size", "Count", "Flag")
    }
    known = {key: value for key, value in {**known, **values}.items() if isinstance(value, int)}
    known.setdefault("tile", 128)  # what tiled traffic takes when nothing is said
    if name in ("attention", "attention_backward"):
        known = {"seq_kv": known["seq_q"], "kv_heads": known["heads"], **known}
        known["pairs"] = work.counts["vector", work.dtype, "softmax"] / (5 if name == "attention" else 6)
        known["tile_keys"] = tile_keys(known, bool(values.get("causal")))
    if name == "conv_transpose2d":
        more = known["dilation"] * (known["kernel"] - 1) + 1 - 2 * known["padding"]
        known["ho"], known["wo"] = ((known[side] - 1) * known["stride"] + more for side in "hw")
    if name in ("conv2d", "conv2d_dgrad", "conv2d_wgrad", "max_pool2d", "max_pool2d_backward"):
        known.setdefault("dilation", 1)
        reach = known["dilation"] * (known["kernel"] - 1)
        half = known["kernel"] // 2 if name.startswith("max_pool") else reach // 2
        pad = known.get("padding", half)
        known["ho"], known["wo"] = ((known[side] + 2 * pad - reach - 1) // known["stride"] + 1 for side in "hw")
        for name, side, outputs in (("rows_read", "h", "ho"), ("columns_read", "w", "wo")):
            seen = {
                place * known["stride"] - pad + tap * known["dilation"]
                for place in range(known[outputs])
                for tap in range(known["kernel"])
            }
            known[name] = len(seen & set(range(known[side])))
    assert work.formulas
    for key, formula in work.formulas.items():
        amount, _, width = formula.replace(" (write-allocate)", "").partition(" x ")
        right = evaluate(amount, known) * (float(width.removesuffix(" B")) if width else 1)
        addend = work.counts[key] if key in work.counts else work.moves[key]
        assert right == pytest.approx(addend, rel=1e-5), (key, formula)  # widths are printed with six digits


# -- text ---------------------------------------------------------------------------------------------------------


@given(
    mantissa=st.floats(1, 999, allow_nan=False),
    power=st.integers(0, 6),
    unit=st.sampled_from(["B", "B/s", "flop", "flop/s", "Hz", "W"]),
    sign=st.sampled_from([1, -1]),
)
@law(200)
def test_what_is_shown_reads_back(mantissa: float, power: int, unit: str, sign: int) -> None:
    """Three digits are shown unless more are asked for, so five parts in 1,000 may be lost."""
    value = sign * mantissa * 1000.0**power
    assert parse(show(value, unit), unit) == pytest.approx(value, rel=5.01e-3)
    assert parse(show(value, unit, digits=9), unit) == pytest.approx(value, rel=1e-8)


@given(mantissa=st.floats(1, 999), power=st.integers(1, 4), unit=st.sampled_from(["s", "J", "J/flop", "J/B"]))
@law(100)
def test_small_times_and_energies_read_back(mantissa: float, power: int, unit: str) -> None:
    value = mantissa * 1000.0**-power
    assert parse(show(value, unit), unit) == pytest.approx(value, rel=5.01e-3)
    assert parse(show(value, unit, digits=9), unit) == pytest.approx(value, rel=1e-8)


@given(value=st.floats(-1e30, 1e30), unit=st.sampled_from(["B", "s", "flop/s"]))
@law(50)
def test_a_bare_number_is_in_base_units(value: float, unit: str) -> None:
    assert parse(repr(value), unit) == parse(value, unit) == value


@given(first=st.integers(1, 10**6), span=st.integers(0, 10**6), factor=st.integers(2, 9), step=st.integers(1, 10**5))
@law(150)
def test_axes(first: int, span: int, factor: int, step: int) -> None:
    """From the first, evenly, up to the last and never past it, and the next value would be past it."""
    last = first + span
    doubling = np.atleast_1d(axis(f"{first}..{last}"))
    np.testing.assert_array_equal(doubling, np.atleast_1d(axis(f"{first}..{last}:x2")))
    by_factor, by_step = axis(f"{first}..{last}:x{factor}"), axis(f"{first}..{last}:{step}")
    for values, ahead in ((by_factor, lambda v: v * factor), (by_step, lambda v: v + step)):
        assert values[0] == first
        assert values[-1] <= last < ahead(values[-1])
        np.testing.assert_array_equal(values[1:], ahead(values[:-1]))


@given(values=st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
@law(40)
def test_a_list_is_itself(values: list[int]) -> None:
    np.testing.assert_array_equal(axis(",".join(map(str, values))), values if len(values) > 1 else values[0])


@pytest.mark.parametrize("name", NAMES)
def test_an_op_misspelt_by_one_letter_is_suggested(name: str) -> None:
    if len(name) < 4:
        return  # three letters with one wrong are near to everything and nothing
    with pytest.raises(UnknownName, match=rf"did you mean .*\b{name}\b"):
        ops.find(name[:-1])


@pytest.mark.parametrize("name", [name for name in NAMES if "dtype" in OPS[name].params])
def test_a_parameter_misspelt_is_suggested(name: str) -> None:
    with pytest.raises(UnknownName, match=r"did you mean .*dtype"):
        OPS[name](dtyp="bf16")


# -- corners that were wrong once --------------------------------------------------------------------------------


def test_ridge_and_share_of_peak_are_per_case() -> None:
    """One head dimension of 1 is bound by the softmax on the vector units, one of 128 by the tensor units."""
    machine = rl.machine("h100-sxm")
    together = predict(ops.attention(1, 1, 64, np.array([1, 128])), machine)
    alone = [predict(ops.attention(1, 1, 64, d), machine) for d in (1, 128)]
    assert [row["ridge"] for row in together.rows()] == [item.ridge for item in alone]
    np.testing.assert_allclose(together.share_of_peak, [item.share_of_peak for item in alone])


def test_a_tiled_product_has_no_single_turning_point() -> None:
    """Whole tiles make the intensity a saw-tooth in m: it crosses the ridge more than once, so none is named."""
    machine = two_number(1e14, 1.2e12)
    values = {"n": 4096, "k": 4096, "traffic": "tiled", "tile": 200}
    found = bound(ops.gemm(m=np.arange(1, 1000), **values), machine)
    crossings = np.diff(np.asarray(found.compute_time) >= np.asarray(found.memory_time))
    assert np.count_nonzero(crossings) > 1
    assert turning_point(ops.gemm, values, machine) is None


def test_the_formula_of_windowed_keys() -> None:
    work = ops.attention(1, 1, 4, 2, seq_kv=64, causal=True, window=3)
    assert work.moves["main", "K", "read"] == (4 + 3 - 1) * 2 * 2
    assert "window" in work.formulas["main", "K", "read"]


def test_a_level_the_machine_lacks_is_left_out() -> None:
    found = bound(ops.gemm(64, 64, 64, tile=16), two_number(1e12, 1e11))
    assert any("l2" in text for text in found.notes)


def test_flat_timing_is_the_documented_formula() -> None:
    """Without kernel families: max over terms of amount / (ceiling x efficiency), plus the launches."""
    machine = rl.machine("h100-sxm")
    item = bound(ops.gemm(4096, 4096, 4096), machine, launch=2e-6)
    terms = [term.time / efficiency(item, name).value for name, term in item.terms.items()]
    assert near(Expected(item, flat=True).time, max(terms) + 2e-6)
