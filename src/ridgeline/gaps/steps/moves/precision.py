"""Products and convolutions in formats that leave the fast units of the machine unused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ....core.errors import RidgelineError
from ....core.timeline import Call, Tensor
from ....core.units import show
from ....programs.aten import Settings, count
from ..groups import Group
from ..items import OpItem
from ..view import View
from .move import Move, expected, price, sources

FP32, TF32, BF16 = "fp32", "tf32", "bf16"


def without_tensor_cores(view: View) -> Iterator[Move]:
    """Products of fp32 matrices on the vector units: tf32 uses the tensor cores on the same tensors."""
    items = [item for item in view.items if _is_product(item, FP32) and not item.group.owner.settings.tf32]
    if view.kept.on_host or f"tensor.{TF32}" not in view.machine.peaks or not items:
        return
    settings = Settings(tf32=True, conv_tf32=True)
    times = _faster(view, items, lambda call: call, settings)
    narrow = _faster(view, items, lambda call: _in_format(call, BF16), settings)
    if not times:
        return
    gain, device = price(view, times)
    spent = sum(group.time for group in times)
    bf16 = price(view, narrow)[0] if narrow else 0.0
    evidence = (
        f"{show(spent, 's', 3)} per step in fp32 products without tensor cores",
        f"expected {show(_total(times), 's', 3)} in tf32; in bf16 the step is {show(bf16, 's', 3)} shorter",
    )
    move = "torch.set_float32_matmul_precision('high') for tf32, or autocast to bf16"
    yield Move("fp32 products", "fp32 products on the vector units", move, gain, evidence, device=device,
               sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip


def narrower(view: View) -> Iterator[Move]:
    """Products in tf32: bf16 halves their bytes and doubles their rate."""
    items = [item for item in view.items if _is_product(item, TF32)]
    if view.kept.on_host or f"tensor.{BF16}" not in view.machine.peaks or not items:
        return
    times = _faster(view, items, lambda call: _in_format(call, BF16), Settings())
    if not times:
        return
    gain, device = price(view, times)
    spent = sum(group.time for group in times)
    evidence = (
        f"{show(spent, 's', 3)} per step in tf32 products; expected {show(_total(times), 's', 3)} in bf16",
        "the tensors between them are halved as well, which is not in the gain",
    )
    move = "run products in bf16: torch.autocast('cuda', torch.bfloat16)"
    yield Move("tf32 products", "tf32 products where bf16 would do", move, gain, evidence, device=device,
               sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip


def _total(times: dict[Group, float]) -> float:
    return sum(time * group.count for group, time in times.items())


def _is_product(item: OpItem, dtype: str) -> bool:
    """Whether its arithmetic is mostly a product of matrices of fp32 tensors, run in this format."""
    work = item.group.owner.work
    tensors = item.group.owner.call.tensors
    if work is None or not tensors or tensors[0].dtype != FP32:
        return False
    return any(engine == "matrix" and name == dtype for engine, name in work.by_engine())


def _faster(view: View, items: list[OpItem], change: Any, settings: Settings) -> dict[Group, float]:
    """The expected time per call after a change, of the groups that it makes faster."""
    times: dict[Group, float] = {}
    for item in items:
        owned = item.group.owner
        counted = count(change(owned.call), replace(settings, leaf=owned.settings.leaf))
        if counted.work is None:
            continue
        try:
            time = expected(view, counted.work, counted.backend)
        except RidgelineError:
            continue
        if time < item.gap.measured:
            times[item.group] = time
    return times


def _in_format(call: Call, dtype: str) -> Call:
    """The call with its fp32 tensors in another format."""

    def change(arg: Any) -> Any:
        if isinstance(arg, tuple):
            return tuple(map(change, arg))
        return replace(arg, dtype=dtype) if isinstance(arg, Tensor) and arg.dtype == FP32 else arg

    return replace(call, args=change(call.args), outputs=())
