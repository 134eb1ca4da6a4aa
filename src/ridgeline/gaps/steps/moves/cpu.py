"""Moves of programs that run on a CPU: threads without a core, operators too small for their dispatch, products in fp32."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....core.timeline import OPTIMIZER
from ....core.units import percent, show
from ....programs.aten import Settings
from ..dispatch import GRAIN, is_small
from ..view import View
from .move import Move, price, price_runs, sources
from .recount import in_format, recounted, total

MIN_SHARE = 0.05  # of the step in dispatches of small operators, from which they are a cause
FP32, BF16 = "fp32", "bf16"
BF16_UNITS = ("tensor.bf16", "vector.bf16")


def waiting_for_cores(view: View, share: float) -> Move:
    """For a program that waited this share of the time for a core: one thread without a core holds up all the others.

    The times of its operators say nothing else then, so that this is its only move.
    """
    evidence = (
        f"{percent(share)} of the recorded time the main thread had no core: other programs use the cores that its threads share",
        "at the end of every parallel loop all threads wait for the one that has no core",
    )
    move = "leave a core to the other programs (OMP_NUM_THREADS=1 where there are two), or run it on an idle machine"
    return Move("waits for cores", "waiting for a core", move, share * view.step, evidence)


def small_operators(view: View) -> Iterator[Move]:
    """Small operators one after the other: a compiler makes one of them, which is dispatched once."""
    each = view.operator_dispatch
    if not view.kept.on_host or each is None:
        return
    small = [item.group for item in view.items if is_small(item.group) and item.group.phase != OPTIMIZER]
    if not small:
        return
    is_member = np.zeros(len(view.kept.places), dtype=np.bool_)
    is_member[np.concatenate([group.runs for group in small])] = True
    follows = is_member & np.concatenate([[False], is_member[:-1] & (view.kept.step[1:] == view.kept.step[:-1])])
    changed = np.where(follows, np.maximum(view.kept.time - each, 0.0), view.kept.time)
    gain, device = price_runs(view, changed)
    number, dropped = int(is_member.sum()) / view.steps, int(follows.sum()) / view.steps
    if dropped * each < MIN_SHARE * view.step:
        return
    evidence = (
        f"{number:,.0f} operators per step on fewer than {GRAIN:,} elements; a dispatch takes {show(each, 's', 2)}",
        f"{dropped:,.0f} of them follow another one: {percent(dropped * each / view.step)} of the step in dispatches to save",
    )
    move = "compile the model (torch.compile), or give each operator more work: a larger batch"
    yield Move("small operators", "dispatch of small operators", move, gain, evidence, device=device,
               sources=sources(small), items=tuple(group.name for group in small[:4]))  # fmt: skip


def bf16_products(view: View) -> Iterator[Move]:
    """Products of fp32 matrices on a CPU that computes them faster in bf16."""
    if not view.kept.on_host or not any(name in view.machine.peaks for name in BF16_UNITS):
        return
    items = [item for item in view.items if item.group.owner.work is not None and item.gap.target.matrix_flops]
    items = [item for item in items if item.group.owner.call.tensors[0].dtype == FP32]
    times = recounted(view, items, in_format(FP32, BF16), Settings(device="cpu"))
    if not times:
        return
    gain, device = price(view, times)
    spent = sum(group.time for group in times)
    evidence = (f"{show(spent, 's', 3)} per step in fp32 products; expected {show(total(times), 's', 3)} in bf16",)
    yield Move("bf16 products", "fp32 products where bf16 would do", "run products in bf16: torch.autocast('cpu', torch.bfloat16)",
               gain, evidence, device=device, sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip
