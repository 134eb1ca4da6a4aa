"""Collectives and distributed tensors on a process group that is not there: bytes on links, ranks from the group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from traced import matrix_flops, names

import ridgeline as rl
from ridgeline.core.timeline import COMMUNICATION
from ridgeline.core.work import LINK

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.needs_torch
RANKS = 8


@pytest.fixture
def group() -> Iterator[Any]:
    """The first of eight ranks that exchange nothing."""
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    import torch.distributed as dist

    dist.init_process_group("fake", rank=0, world_size=RANKS, store=fake.FakeStore())
    try:
        yield dist
    finally:
        dist.destroy_process_group()


def on_links(trace: Any) -> dict[str, float]:
    """Bytes that a rank sends, by collective."""
    return {
        op.site.call.name.rpartition("::")[2]: float(op.work.bytes_at(LINK))
        for op in trace.ops
        if op.work is not None and op.site.phase == COMMUNICATION
    }


def test_functional_collectives_know_their_ranks(group: Any) -> None:
    from torch.distributed import _functional_collectives as functional

    def run(x: Any) -> Any:
        total = functional.all_reduce(x, "sum", group.group.WORLD)
        return functional.reduce_scatter_tensor(total, "sum", 0, group.group.WORLD)

    x = torch.empty(1024, 64)
    # a ring sends (ranks - 1) / ranks of the buffer to reduce it, and as much again to gather it
    share = x.numel() * 4 * (RANKS - 1) / RANKS
    assert on_links(rl.trace(run, x)) == {"all_reduce": 2 * share, "reduce_scatter_tensor": share}


def test_a_gather_counts_what_it_ends_with(group: Any) -> None:
    x = torch.empty(1024, 64)
    results = [torch.empty(1024, 64) for _ in range(RANKS)]
    trace = rl.trace(lambda x: group.all_gather(results, x), x)
    assert on_links(trace) == {"allgather_": x.numel() * 4 * (RANKS - 1)}
    joined = rl.trace(lambda x: torch.ops._c10d_functional.all_gather_into_tensor(x, RANKS, "0"), x)
    assert on_links(joined) == {"all_gather_into_tensor": x.numel() * 4 * (RANKS - 1)}


def test_distributed_tensors_run_their_part_and_communicate(group: Any) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024, bias=False), torch.nn.ReLU(), torch.nn.Linear(1024, 256, bias=False)
    )
    parallelize_module(model, init_device_mesh("cpu", (RANKS,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    trace = rl.trace(model, torch.empty(64, 256))
    assert matrix_flops(trace) == 2 * 64 * 2 * 256 * 1024 / RANKS
    assert names(trace)["mm"] == 2
    assert on_links(trace) == {"all_reduce": 2 * 64 * 256 * 4 * (RANKS - 1) / RANKS}


def test_gradients_that_replicas_exchange_are_listed(group: Any) -> None:
    """The reducer of DistributedDataParallel runs outside of the dispatcher: its bytes are said, not silently left out."""
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))

    def step(x: Any) -> None:
        net(x).sum().backward()

    notes = " ".join(rl.trace(step, torch.randn(4, 8)).notes)
    assert f"all-reduce of gradients by DistributedDataParallel, {4 * 72} B over {RANKS} ranks" in notes
    assert "all-reduce" not in " ".join(rl.trace(net, torch.randn(4, 8)).notes)
