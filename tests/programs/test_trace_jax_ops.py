"""Every kind of JAX primitive: counted, named where it is not, and with accesses that add up to the bytes of its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ridgeline.core.trace import HOST, LIBRARY, UNKNOWN, WORK, Trace
from ridgeline.core.work import LINK
from ridgeline.programs.trace.jax_rules import THREEFRY
from ridgeline.programs.trace.jax_trace import trace_jax

jax = pytest.importorskip("jax")
jnp, lax, nn = jax.numpy, jax.lax, jax.nn
F32, I32, BF16 = jnp.float32, jnp.int32, jnp.bfloat16


def array(*shape: int, dtype: Any = F32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def key() -> Any:
    return jax.ShapeDtypeStruct((), jax.eval_shape(lambda: jax.random.key(0)).dtype)


def pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "dropout": (lambda k, x: jnp.where(jax.random.bernoulli(k, 0.9, x.shape), x, 0), (key(), array(64, 64))),
    "categorical": (jax.random.categorical, (key(), array(8, 64))),
    "permutation": (jax.random.permutation, (key(), array(64))),
    "argsort": (jnp.argsort, (array(8, 64),)),
    "associative scan": (lambda x: lax.associative_scan(jnp.add, x), (array(64),)),
    "max pool": (jax.grad(lambda x: pool(x).sum()), (array(2, 8, 8, 4),)),
    "cross entropy": (
        jax.grad(lambda x, y: -jnp.take_along_axis(nn.log_softmax(x), y[:, None], 1).mean()),
        (array(8, 64), array(8, dtype=I32)),
    ),
    "set rows": (lambda x, i, v: x.at[i].set(v), (array(8, 64), array(3, dtype=I32), array(3, 64))),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 4), (array(8, 64), array(8, dtype=I32))),
    "pad, roll, concatenate": (lambda x: jnp.concatenate([jnp.roll(x, 1), jnp.pad(x, 1)[1:-1, 1:-1]]), (array(8, 8),)),
    "repeat": (lambda x: jnp.repeat(x, 3, 1), (array(8, 64),)),
    "reversed product": (lambda x: jnp.flip(x) @ x, (array(8, 8),)),
    "layer norm": (
        jax.grad(lambda x: ((x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)).sum()),
        (array(8, 64),),
    ),
    "logsumexp": (nn.logsumexp, (array(8, 64),)),
    "attention by XLA": (
        lambda q, k: nn.dot_product_attention(q, k, k, is_causal=True),
        (array(2, 32, 8, 16, dtype=BF16), array(2, 32, 4, 16, dtype=BF16)),
    ),
    "map": (lambda x: lax.map(lambda row: row @ row, x), (array(4, 8, 8),)),
    "recurrence": (lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), jnp.zeros(8), x), (array(10, 8),)),
    "decoding into a cache": (
        lambda cache, x: lax.fori_loop(
            0, 5, lambda i, s: (lax.dynamic_update_slice(s[0], s[1][None], (i, 0)), jnp.tanh(s[1])), (cache, x)
        ),
        (array(16, 8), array(8)),
    ),
    "hessian": (jax.hessian(lambda x: jnp.tanh(x).sum()), (array(8),)),
    "unpacked int4": (lambda x, w: x @ w.astype(BF16), (array(8, 8, dtype=BF16), array(8, 8, dtype=jnp.int4))),
    "groups": (
        jax.grad(lambda x, w, g: lax.ragged_dot(x, w, g).sum(), (0, 1)),
        (array(64, 16), array(4, 16, 8), array(4, dtype=I32)),
    ),
    "resize": (lambda x: jax.image.resize(x, (2, 16, 16, 3), "bilinear"), (array(2, 8, 8, 3),)),
    "inverse": (jnp.linalg.inv, (array(8, 8),)),
    "complex transform": (jnp.fft.rfft, (array(8, 64),)),
    "nothing": (lambda x: x[:0] + 1, (array(8),)),
    "constant": (lambda: jnp.ones((8, 8)), ()),
}
SMALL = 16.0  # bytes of constants that a kernel is given, which need no buffer


def differing(trace: Trace) -> list[str]:
    """Calls whose accesses are not the bytes of their work."""
    names = []
    for call, op in enumerate(trace.op):
        work = trace.ops[op].work
        if work is not None and LINK not in work.levels():
            accessed = sum(size for _, size in (*trace.reads[call], *trace.writes[call]))
            if abs(accessed - float(work.bytes)) > SMALL:
                names.append(f"{trace.ops[op].site.call.name}: {accessed} B in buffers, {work.bytes} B of work")
    return names


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_counted_in_full_and_their_accesses_are_their_bytes(name: str) -> None:
    function, args = PROGRAMS[name]
    trace = trace_jax(function, args)
    assert not trace.uncounted
    assert differing(trace) == []
    buffers = trace.buffers
    assert (buffers.dies > buffers.born).all()
    for call in range(len(trace)):
        for buffer, size in (*trace.reads[call], *trace.writes[call]):
            assert buffers.born[buffer] <= call < buffers.dies[buffer]
            assert size <= 2 * buffers.size[buffer] + SMALL  # both operands of a product may be one array


def test_the_check_of_accesses_can_fail() -> None:
    trace = trace_jax(jnp.sin, (array(64),))
    assert differing(trace) == []
    emptied = Trace(trace.ops, trace.op, trace.times, ((),), trace.writes, trace.buffers)
    assert len(differing(emptied)) == 1


def works(trace: Trace, name: str) -> list[Any]:
    return [op.work for op in trace.ops if op.site.call.name == name and op.kind == WORK]


def test_attention_of_cudnn_is_one_operation_and_causal() -> None:
    """(4 D + 5) flops for each pair that a causal mask leaves; the backward pass has five products for two."""
    batch, sequence, heads, shared, size = 2, 128, 8, 4, 64
    q = array(batch, sequence, heads, size, dtype=BF16)
    k = array(batch, sequence, shared, size, dtype=BF16)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")

    forward = trace_jax(attend, (q, k, k))
    pairs = batch * heads * sequence * (sequence + 1) / 2
    (work,) = works(forward, "aten::_scaled_dot_product_cudnn_attention")
    assert work.flops == (4 * size + 5) * pairs
    assert work.bytes == 2 * batch * sequence * size * (2 * heads + 2 * shared)
    assert forward.ops[forward.op[-1]].backend == "" or "cudnn" in {op.backend for op in forward.ops}
    both = trace_jax(jax.grad(lambda *args: attend(*args).astype(F32).sum(), (0, 1, 2)), (q, k, k))
    (gradient,) = works(both, "aten::_scaled_dot_product_cudnn_attention_backward")
    products = sum(value for (engine, _, _), value in gradient.counts.items() if engine == "matrix")
    assert products == 10 * size * pairs
    assert differing(both) == []


def test_attention_by_xla_is_its_products_over_all_pairs_under_one_scope() -> None:
    function, args = PROGRAMS["attention by XLA"]
    trace = trace_jax(function, args)
    products = works(trace, "aten::bmm")
    assert sum(float(work.flops) for work in products) == 4 * 2 * 8 * 32 * 32 * 16
    scoped = [op for op in trace.ops if "dot_product_attention" in op.site.modules]
    assert len(scoped) == len(trace.ops)


def test_grouped_products_count_every_row_once_and_every_matrix() -> None:
    function, args = PROGRAMS["groups"]
    trace = trace_jax(function, args)
    grouped = works(trace, "aten::_grouped_mm")
    assert [float(work.flops) for work in grouped] == [2 * 64 * 16 * 8] * 2


def test_random_bits_take_their_rounds() -> None:
    trace = trace_jax(lambda k: jax.random.bits(k, (1000,)), (key(),))
    assert trace.flops == 1000 * THREEFRY
    assert THREEFRY == (20 * 5 + 6 * 2) / 2


def test_powers_are_products_by_squaring() -> None:
    for exponent, products in ((2, 1), (3, 2), (4, 2), (7, 4), (8, 3), (-2, 2)):
        assert trace_jax(lambda x, y=exponent: lax.integer_pow(x, y), (array(10),)).flops == 10 * products


def test_reductions_of_rows_have_the_kernel_of_rows() -> None:
    rows = trace_jax(lambda x: x.sum(-1), (array(64, 128),)).ops[-1].work
    columns = trace_jax(lambda x: x.sum(0), (array(64, 128),)).ops[-1].work
    assert rows is not None
    assert columns is not None
    assert rows.flops == 64 * 127
    assert columns.flops == 63 * 128
    assert rows.kernels[0].family == "rows"
    assert (columns.kernels[0].family, columns.kernels[0].op) == ("rows", "sum_columns")


def test_sorts_and_selections_move_their_arrays_once() -> None:
    assert trace_jax(jnp.sort, (array(8, 64),)).bytes == 2 * 8 * 64 * 4
    assert trace_jax(lambda x: lax.top_k(x, 4), (array(8, 64),)).bytes == 8 * 64 * 4 + 8 * 4 * (4 + 4)
    assert trace_jax(lambda x: jnp.cumsum(x, 0), (array(8, 64),)).flops == 7 * 64


def test_callbacks_are_the_hosts_and_custom_kernels_are_named() -> None:
    shape = jax.ShapeDtypeStruct((8,), F32)
    called = trace_jax(lambda x: jax.pure_callback(lambda y: y, shape, x), (array(8),))
    assert [op.kind for op in called.ops] == [HOST]
    foreign = trace_jax(lambda x: jax.ffi.ffi_call("my_kernel", shape)(x), (array(8),))
    assert [(op.kind, op.sort, op.bytes) for op in foreign.ops] == [(UNKNOWN, LIBRARY, 64.0)]
    assert "ffi_call" in foreign.ops[0].reason
