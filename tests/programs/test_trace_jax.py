"""JAX programs as traces: counts against closed forms, XLA's own count and sums over every element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgeline.core.trace import HOLDS, LIBRARY, POINTWISE, REDUCTION, UNKNOWN, VIEW, Trace
from ridgeline.programs.trace.jax_trace import trace_jax

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
Struct = jax.ShapeDtypeStruct


def array(*shape: int, dtype: Any = jnp.float32) -> Any:
    return Struct(shape, dtype)


def matrix_flops(trace: Trace) -> float:
    """Flops of products alone, every call counted as often as it runs."""
    total = 0.0
    for op, count in zip(trace.ops, trace.counts, strict=True):
        if op.work is not None:
            total += count * sum(float(value) for (engine, _, _), value in op.work.counts.items() if engine == "matrix")
    return total


def xla_flops(function: Any, *args: Any) -> float:
    """What XLA counts before it optimises: a multiply-add as two, everything else as one. Its GPU backend counts nothing."""
    with jax.default_device(jax.devices("cpu")[0]):
        return float(jax.jit(function).lower(*args).cost_analysis()["flops"])


def names(trace: Trace, sort: str | None = None) -> list[str]:
    return [trace.ops[op].site.call.name for op in trace.op if sort is None or trace.ops[op].sort == sort]


def moved(trace: Trace, name: str) -> tuple[float, float]:
    """Bytes that the calls of a name read and write."""
    calls = [place for place, op in enumerate(trace.op) if trace.ops[op].site.call.name == name]
    assert calls, names(trace)
    return (
        sum(size for call in calls for _, size in trace.reads[call]),
        sum(size for call in calls for _, size in trace.writes[call]),
    )


# -- flops -----------------------------------------------------------------------------------------------------------------


def mlp(layers: list[Any], x: Any) -> Any:
    for weight in layers[:-1]:
        x = jnp.maximum(x @ weight, 0)
    return x @ layers[-1]


def test_flops_of_an_mlp_are_two_per_weight_and_row_and_one_per_activation() -> None:
    layers, x = [array(64, 256), array(256, 256), array(256, 16)], array(32, 64)
    trace = trace_jax(mlp, (layers, x))
    weights = 64 * 256 + 256 * 256 + 256 * 16
    assert matrix_flops(trace) == 2 * 32 * weights
    assert trace.flops == 2 * 32 * weights + 2 * 32 * 256
    assert trace.flops == xla_flops(mlp, layers, x)


def test_a_training_step_takes_three_products_per_layer_but_two_for_the_first() -> None:
    """dx of the first layer is not needed. The optimizer multiplies and subtracts once per weight."""
    layers, x, y = [array(64, 256), array(256, 256), array(256, 16)], array(32, 64), array(32, 16)

    def step(layers: list[Any], x: Any, y: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda w: jnp.mean((mlp(w, x) - y) ** 2))(layers)
        return jax.tree.map(lambda w, g: w - 0.1 * g, layers, gradients), loss

    trace = trace_jax(step, (layers, x, y))
    weights = [64 * 256, 256 * 256, 256 * 16]
    assert matrix_flops(trace) == 2 * 32 * (3 * sum(weights) - weights[0])
    by_phase = dict.fromkeys(("forward", "backward", "optimizer"), 0.0)
    for op, count in zip(trace.ops, trace.counts, strict=True):
        by_phase[op.site.phase] += count * float(op.work.flops) if op.work else 0.0
    assert by_phase["optimizer"] == 2 * sum(weights)
    assert by_phase["backward"] > by_phase["forward"] > 0


def layer(weights: dict[str, Any], x: Any, heads: int) -> Any:
    """One layer of a transformer with attention written out."""
    batch, sequence, width = x.shape
    q, k, v = (jnp.reshape(x @ weights[name], (batch, sequence, heads, width // heads)) for name in ("q", "k", "v"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(width // heads)
    mask = jnp.tril(jnp.ones((sequence, sequence), bool))
    weighted = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)
    x = x + jnp.reshape(weighted, x.shape) @ weights["o"]
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


def layer_weights(width: int, dtype: Any = jnp.float32) -> dict[str, Any]:
    square = {name: array(width, width, dtype=dtype) for name in ("q", "k", "v", "o")}
    return square | {"up": array(width, 4 * width, dtype=dtype), "down": array(4 * width, width, dtype=dtype)}


def test_flops_of_a_transformer_layer_are_those_of_its_weights_and_of_both_products_of_attention() -> None:
    """XLA computes the masked pairs too, so attention counts every pair."""
    batch, sequence, width, heads = 2, 64, 128, 4
    weights, x = layer_weights(width), array(batch, sequence, width)
    trace = trace_jax(lambda w, x: layer(w, x, heads), (weights, x))
    expected = 2 * batch * sequence * 12 * width**2 + 2 * 2 * batch * sequence**2 * width
    assert matrix_flops(trace) == expected
    # XLA counts elementwise work otherwise (tanh and exp apart), which is a few percent here
    assert xla_flops(lambda w, x: layer(w, x, heads), weights, x) == pytest.approx(trace.flops, rel=0.05)


CONVOLUTIONS = [
    # stride, padding, groups, dilation
    ((1, 1), "SAME", 1, (1, 1)),
    ((2, 2), "SAME", 1, (1, 1)),
    ((2, 1), "VALID", 1, (1, 1)),
    ((1, 1), "VALID", 4, (1, 1)),
    ((1, 1), ((2, 1), (0, 3)), 1, (2, 2)),
]


@pytest.mark.parametrize(("stride", "padding", "groups", "dilation"), CONVOLUTIONS)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_flops_of_convolutions_and_their_gradients(
    stride: Any, padding: Any, groups: int, dilation: Any, layout: str
) -> None:
    """2 per output, input channel of the group and tap, in each of the three passes."""
    sizes = {"N": 2, "H": 12, "W": 10, "C": 8}
    x = array(*(sizes[letter] for letter in layout))
    w = array(3, 3, 8 // groups, 16)

    def convolve(x: Any, w: Any) -> Any:
        numbers = (layout, "HWIO", layout)
        return lax.conv_general_dilated(
            x, w, stride, padding, rhs_dilation=dilation, dimension_numbers=numbers, feature_group_count=groups
        )

    out = jax.eval_shape(convolve, x, w)
    expected = 2 * math.prod(out.shape) * 8 // groups * 9
    forward = trace_jax(convolve, (x, w))
    assert forward.flops == expected
    assert forward.ops[forward.op[-1]].site.call.name == "aten::convolution"
    both = trace_jax(jax.grad(lambda x, w: convolve(x, w).sum(), (0, 1)), (x, w))
    passes = [op.work for op in both.ops if op.work is not None and op.site.call.name == "aten::convolution"]
    assert sorted(work.name for work in passes) == ["conv_dgrad", "conv_wgrad"]  # the sum's value is not needed
    assert [float(work.flops) for work in passes] == [expected, expected]


def test_a_transposed_convolution_counts_every_input_pixel_with_its_taps() -> None:
    x, w = array(2, 7, 7, 8), array(3, 3, 8, 16)
    trace = trace_jax(lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (x, w))
    assert trace.flops == 2 * 2 * 7 * 7 * 8 * 16 * 9


def test_a_convolution_counts_as_xla_counts_it_without_padding() -> None:
    x, w = array(2, 12, 12, 8), array(3, 3, 8, 16)

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    assert trace_jax(convolve, (x, w)).flops == xla_flops(convolve, x, w)


EINSUMS = ["ij,jk->ik", "bij,bjk->bik", "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "ij,kj->ki", "abc,cda->bd", "ij,ij->ij", "i,j->ij", "abcd,dcb->a"]  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(EINSUMS), st.lists(st.integers(1, 6), min_size=8, max_size=8))
def test_products_of_any_layout_take_two_flops_per_term_of_the_sum(equation: str, sizes: list[int]) -> None:
    """The brute force: one multiply and one add for every value of all indices together; one multiply where none is summed."""
    letters = sorted(set(equation) - set(",->"))
    size = dict(zip(letters, sizes, strict=False))
    inputs, output = equation.split("->")
    args = [array(*(size[letter] for letter in term)) for term in inputs.split(",")]
    trace = trace_jax(lambda a, b: jnp.einsum(equation, a, b), args)
    terms = math.prod(size[letter] for letter in letters)
    if set(letters) == set(output):
        assert trace.flops in (terms, 2 * terms)  # elementwise, or a product that sums over one index of size 1
    else:
        assert matrix_flops(trace) == 2 * terms


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4))
def test_a_scan_counts_its_body_once_per_trip_and_so_does_its_gradient(length: int, rows: int, width: int) -> None:
    def body(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w), None

    def run(ws: Any, x: Any) -> Any:
        return lax.scan(body, x, ws)[0].sum()

    ws, x = array(length, width, width), array(rows, width)
    product = 2 * rows * width * width
    assert matrix_flops(trace_jax(run, (ws, x))) == length * product
    assert matrix_flops(trace_jax(jax.grad(run), (ws, x))) == 3 * length * product
    # the backward pass of a checkpointed body computes the product of the forward pass again
    again = jax.grad(lambda ws, x: lax.scan(jax.checkpoint(body), x, ws)[0].sum())
    assert matrix_flops(trace_jax(again, (ws, x))) == 4 * length * product


def test_vmap_multiplies_the_work_by_the_batch() -> None:
    def single(w: Any, x: Any) -> Any:
        return jnp.tanh(w @ x)

    batched = trace_jax(jax.vmap(single, (None, 0)), (array(8, 8), array(5, 8)))
    alone = trace_jax(single, (array(8, 8), array(8)))
    assert matrix_flops(batched) == 5 * matrix_flops(alone) == 5 * 2 * 8 * 8


def test_loops_with_a_counter_have_their_trips_and_others_are_named() -> None:
    x = array(16, 16)
    static = trace_jax(lambda x: lax.fori_loop(0, 10, lambda _, c: c @ c, x), (x,))
    counted = trace_jax(lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 2, c[1] @ c[1]), (0, x)), (x,))
    open_end = trace_jax(lambda x: lax.while_loop(lambda c: c.sum() < 10, lambda c: c @ c, x), (x,))
    product = 2 * 16**3
    assert [matrix_flops(trace) for trace in (static, counted, open_end)] == [10 * product, 5 * product, product]
    assert not static.notes
    assert not counted.notes
    assert len(open_end.notes) == 1
    assert "test_trace_jax.py" in open_end.notes[0]
    assert "trip count" in open_end.notes[0]


def test_a_conditional_lists_both_branches_and_counts_the_one_with_more_work() -> None:
    def choose(flag: Any, x: Any) -> Any:
        return lax.cond(flag, lambda x: x @ x, lambda x: x + 1.0, x)

    trace = trace_jax(choose, (array(dtype=jnp.bool_), array(64, 64)))
    counts = {op.site.call.name: count for op, count in zip(trace.ops, trace.counts, strict=True)}
    assert counts["aten::mm"] == 1
    assert counts["add"] == 0
    assert trace.flops == 2 * 64**3
    assert "branch 1" in trace.notes[0]


def test_dead_code_is_not_counted() -> None:
    def wasteful(x: Any) -> Any:
        x @ x
        return x + 1

    assert trace_jax(wasteful, (array(8, 8),)).flops == 64


# -- formats ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "precision", "engine"),
    [
        (jnp.bfloat16, None, "bf16"),
        (jnp.float16, None, "fp16"),
        (jnp.float32, None, "tf32"),
        (jnp.float32, lax.Precision.HIGHEST, "fp32"),
        (jnp.float32, "BF16_BF16_F32", "bf16"),
        (jnp.float8_e4m3fn, None, "fp8_e4m3"),
        (jnp.int8, None, "int8"),
    ],
)
def test_products_run_in_the_format_that_their_precision_asks_for(dtype: Any, precision: Any, engine: str) -> None:
    x = array(8, 8, dtype=dtype)
    wide = jnp.int32 if dtype == jnp.int8 else jnp.float32
    trace = trace_jax(lambda a, b: lax.dot(a, b, precision=precision, preferred_element_type=wide), (x, x))
    work = trace.ops[-1].work
    assert work is not None
    assert set(work.by_engine()) == {("matrix", engine)}
    width = np.dtype(dtype).itemsize
    assert work.bytes == 64 * (2 * width + 4)
    assert trace.reads[-1] == ((0, 64 * width), (1, 64 * width))
    assert trace.writes[-1] == ((2, 64 * 4),)


def test_three_pass_products_count_three_times() -> None:
    x = array(8, 8)
    trace = trace_jax(lambda a: lax.dot(a, a, precision="BF16_BF16_F32_X3"), (x,))
    assert trace.flops == 3 * 2 * 8**3


# -- bytes and views -------------------------------------------------------------------------------------------------------


def test_views_move_nothing_and_broadcasts_are_read_at_their_own_size() -> None:
    def function(x: Any, bias: Any) -> Any:
        return jnp.exp(x.T.reshape(4, 8).T + bias)

    trace = trace_jax(function, (array(8, 4), array(4)))
    assert set(names(trace, POINTWISE)) == {"add", "exp"}
    assert moved(trace, "add") == (4 * (32 + 4), 4 * 32)
    assert all(not trace.reads[call] for call, op in enumerate(trace.op) if trace.ops[op].sort == VIEW)


def test_an_embedding_reads_the_rows_it_touches() -> None:
    trace = trace_jax(lambda table, ids: table[ids], (array(1000, 32), array(5, dtype=jnp.int32)))
    assert moved(trace, "gather") == (5 * 32 * 4 + 5 * 4, 5 * 32 * 4)


def test_the_gradient_of_an_embedding_fills_the_table_and_adds_rows_in_place() -> None:
    def loss(table: Any, ids: Any, weights: Any) -> Any:
        return (table[ids] * weights).sum()

    trace = trace_jax(jax.grad(loss), (array(1000, 32), array(5, dtype=jnp.int32), array(5, 32)))
    assert moved(trace, "scatter-add") == (5 * 32 * 4 + 5 * 4 + 5 * 32 * 4, 5 * 32 * 4)
    assert moved(trace, "copy") == (0, 1000 * 32 * 4)


def test_a_cache_is_updated_in_place_unless_it_is_the_callers() -> None:
    def append(cache: Any, row: Any, at: Any) -> Any:
        return lax.dynamic_update_slice(cache * 2.0, row, (at, 0))

    own = trace_jax(append, (array(100, 8), array(1, 8), array(dtype=jnp.int32)))
    assert "copy" not in names(own)
    assert moved(own, "dynamic_update_slice") == (8 * 4 + 4, 8 * 4)  # the row and its place
    given_one = trace_jax(
        lambda cache, row, at: lax.dynamic_update_slice(cache, row, (at, 0)),
        (array(100, 8), array(1, 8), array(dtype=jnp.int32)),
    )
    assert moved(given_one, "copy") == (100 * 8 * 4, 100 * 8 * 4)


def test_a_product_reads_and_writes_transposed_matrices_but_not_split_batches() -> None:
    """cuBLAS takes one stride for the batch: heads between positions and features need a copy, transposed matrices do not."""
    x = array(8, 4)
    assert "transpose" not in names(trace_jax(lambda a, b: (a.T @ b).T + 1.0, (x, x)), POINTWISE)
    heads = array(2, 16, 4, 8)
    trace = trace_jax(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), (heads, heads))
    copies = [name for name in names(trace) if name not in ("aten::bmm", "aten::mm")]
    assert len(copies) == 2
    assert trace.flops == 2 * 2 * 4 * 16 * 16 * 8


# -- memory ----------------------------------------------------------------------------------------------------------------


def held(trace: Trace, kind: str) -> float:
    return float(trace.buffers.size[trace.buffers.holds == HOLDS.index(kind)].sum())


def peak(trace: Trace) -> float:
    buffers = trace.buffers
    return max(float(buffers.size[(buffers.born <= call) & (buffers.dies > call)].sum()) for call in range(len(trace)))


def test_buffers_live_from_their_producer_to_their_last_reader() -> None:
    trace = trace_jax(lambda x: jnp.exp(jnp.sin(x) + 1.0).sum(), (array(256),))
    sizes = [256 * 4] * 4 + [4]
    assert list(trace.buffers.size) == sizes
    assert list(trace.buffers.born) == [-1, 0, 1, 2, 3]
    assert list(trace.buffers.dies) == [5, 2, 3, 4, 5]  # the result and what was given outlive the run
    assert peak(trace) == 3 * 256 * 4
    assert [HOLDS[kind] for kind in trace.buffers.holds] == ["input", *["temporary"] * 3, "activation"]


def test_checkpoints_trade_memory_for_flops() -> None:
    def run(ws: list[Any], x: Any, wrap: Any) -> Any:
        for w in ws:
            x = wrap(lambda x, w: jnp.tanh(jnp.sin(jnp.exp(x @ w))))(x, w)
        return x.sum()

    ws, x = [array(32, 32)] * 6, array(512, 32)
    plain = trace_jax(jax.grad(lambda ws, x: run(ws, x, lambda f: f)), (ws, x))
    saved = trace_jax(jax.grad(lambda ws, x: run(ws, x, jax.checkpoint)), (ws, x))
    assert peak(saved) < 0.7 * peak(plain)
    assert matrix_flops(saved) > matrix_flops(plain)
    assert held(saved, "activation") < held(plain, "activation")
    assert held(plain, "parameter") == 6 * 32 * 32 * 4
    assert held(plain, "gradient") == 6 * 32 * 32 * 4


def test_arguments_are_parameters_state_and_inputs_by_their_structure() -> None:
    def step(params: Any, momentum: Any, x: Any) -> Any:
        gradients = jax.grad(lambda p: jnp.mean((x @ p["w"] + p["b"]) ** 2))(params)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum

    tree = {"w": array(8, 4), "b": array(4)}
    trace = trace_jax(step, (tree, tree, array(16, 8)))
    kinds = [HOLDS[kind] for kind in trace.buffers.holds[:5]]
    assert kinds == ["parameter", "parameter", "state", "state", "input"]


# -- places ----------------------------------------------------------------------------------------------------------------


def test_every_op_has_its_scopes_phase_and_line() -> None:
    def loss(w: Any, x: Any) -> Any:
        with jax.named_scope("dense"):
            y = x @ w
        return jnp.tanh(y).sum()

    trace = trace_jax(jax.jit(jax.value_and_grad(loss)), (array(8, 8), array(4, 8)))
    products = [op.site for op in trace.ops if op.site.call.name == "aten::mm"]
    assert [site.phase for site in products] == ["forward", "backward"]
    assert [site.modules for site in products] == [("jit(loss)", "jvp(dense)"), ("jit(loss)", "transpose(jvp(dense))")]
    assert all("test_trace_jax.py" in site.source for site in products)
    assert products[0].outer[0].name == "dot_general"
    sorts = {op.site.call.name: op.sort for op in trace.ops}
    assert sorts["aten::mm"] == LIBRARY
    assert sorts["tanh"] == POINTWISE
    assert sorts["reduce_sum"] == REDUCTION


def test_equal_calls_at_one_place_are_one_op() -> None:
    def stack(w: Any, x: Any) -> Any:
        for _ in range(50):
            x = jnp.tanh(x @ w)
        return x

    trace = trace_jax(stack, (array(8, 8), array(4, 8)))
    assert len(trace.ops) == 2
    assert len(trace) == 100
    assert list(trace.counts) == [50, 50]


def test_what_has_no_rule_is_listed_with_its_bytes() -> None:
    trace = trace_jax(lambda x: jnp.linalg.svd(x, compute_uv=False), (array(16, 16),))
    assert [(op.site.call.name, op.kind, count) for op, count in trace.uncounted] == [("svd", UNKNOWN, 1.0)]
    assert trace.uncounted[0][0].bytes >= 16 * 16 * 4
    assert "svd" in trace.uncounted[0][0].reason
