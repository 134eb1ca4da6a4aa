"""Collectives of sharded JAX programs: what one rank computes and sends, on a mesh that needs no devices."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline.core.timeline import COMMUNICATION
from ridgeline.core.trace import Trace
from ridgeline.core.work import LINK, Work
from ridgeline.programs.trace.jax_trace import trace_jax

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
P = jax.sharding.PartitionSpec
DATA, MODEL = 4, 2


def array(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def mesh() -> Any:
    return jax.sharding.AbstractMesh((DATA, MODEL), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def sent(trace: Trace) -> dict[str, float]:
    """Bytes on the links by collective."""
    return {
        op.site.call.name: float(op.work.bytes_at(LINK))
        for op in trace.ops
        if op.work is not None and LINK in op.work.levels()
    }


def one(function: Any, shape: tuple[int, ...], spec: Any) -> Work:
    """The collective of a function of one shard."""
    body = jax.shard_map(function, mesh=mesh(), in_specs=spec, out_specs=spec, check_vma=False)
    trace = trace_jax(body, (array(*shape),))
    (op,) = [op for op in trace.ops if op.site.phase == COMMUNICATION]
    assert op.work is not None
    assert "one rank" in trace.notes[0]
    return op.work


SIZE = 16 * 8 * 4  # bytes of a shard of 64 x 8 over four ranks


@pytest.mark.parametrize(
    ("function", "name", "bytes_sent"),
    [
        (lambda x: lax.psum(x, "data"), "all_reduce", 2 * 3 / 4 * SIZE),
        (lambda x: lax.pmax(x, ("data", "model")), "all_reduce", 2 * 7 / 8 * SIZE),
        (lambda x: lax.all_gather(x, "data", tiled=True), "all_gather", 3 * SIZE),
        (lambda x: lax.psum_scatter(x, "data", tiled=True), "reduce_scatter", 3 / 4 * SIZE),
        (lambda x: lax.all_to_all(x, "data", 1, 0, tiled=True), "all_to_all", 3 / 4 * SIZE),
        (lambda x: lax.ppermute(x, "data", [(0, 1), (1, 2), (2, 3), (3, 0)]), "p2p", SIZE),
        (lambda x: lax.psum(x, "data", axis_index_groups=[[0, 1], [2, 3]]), "all_reduce", SIZE),
    ],
)
def test_collectives_go_over_the_ranks_of_their_axes(function: Any, name: str, bytes_sent: float) -> None:
    work = one(function, (64, 8), P("data"))
    assert work.name == name
    assert work.bytes_at(LINK) == pytest.approx(bytes_sent)


def test_a_sharded_layer_counts_the_shards_and_sums_over_the_model_axis() -> None:
    """x[64, 32] over (data, model) times w[32, 16] over model: one rank multiplies 16 x 16 by 16 x 16."""
    body = jax.shard_map(
        lambda x, w: lax.psum(x @ w, "model"),
        mesh=mesh(),
        in_specs=(P("data", "model"), P("model", None)),
        out_specs=P("data", None),
    )
    trace = trace_jax(body, (array(64, 32), array(32, 16)))
    products = [op.work for op in trace.ops if op.site.call.name == "aten::mm"]
    assert [float(work.flops) for work in products if work is not None] == [2 * 16 * 16 * 16]
    assert sent(trace) == {"psum_invariant": 2 * (1 / 2) * 16 * 16 * 4}
    gradient = trace_jax(jax.grad(lambda x, w: body(x, w).sum(), (0, 1)), (array(64, 32), array(32, 16)))
    assert sum(count for op, count in zip(gradient.ops, gradient.counts, strict=True) if op.site.call.name == "aten::mm") == 2  # fmt: skip
    assert not gradient.uncounted


def test_an_axis_of_one_rank_sends_nothing() -> None:
    single = jax.sharding.AbstractMesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    body = jax.shard_map(lambda x: lax.psum(x, "data"), mesh=single, in_specs=P(), out_specs=P(), check_vma=False)
    assert sent(trace_jax(body, (array(8, 8),))) == {}
