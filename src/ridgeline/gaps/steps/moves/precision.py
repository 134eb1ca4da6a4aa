"""Products and convolutions in formats that leave the fast units of the machine unused."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ....core.timeline import OPTIMIZER, Tensor
from ....core.units import counted, show
from ....programs.aten import Settings
from ....programs.aten.arguments import base_name
from ..items import OpItem
from ..kept import Floats
from ..view import View
from .move import Move, price, price_runs, sources, with_times
from .recount import in_format, is_on_images, recounted, total, unchanged

CASTS = 2.0  # launches per product, 211 for 107 products of a ResNet-50 step under autocast
FP64, FP32, TF32, BF16 = "fp64", "fp32", "tf32", "bf16"
# How tf32 is allowed in products of matrices, and of images.
TF32_SWITCHES = {"torch.set_float32_matmul_precision('high')": False, "torch.backends.cudnn.allow_tf32 = True": True}
# Autocast runs these in the format of their input, which a product before them has written.
ACTIVATIONS = frozenset({
    "relu", "gelu", "silu", "clamp_min", "threshold_backward", "gelu_backward", "silu_backward", "native_dropout",
})  # fmt: skip


def without_tensor_cores(view: View) -> Iterator[Move]:
    """Products of fp32 matrices on the vector units: tf32 uses the tensor cores on the same tensors."""
    items = [item for item in view.items if _is_product(item, FP32) and not item.group.owner.settings.tf32]
    if view.kept.on_host or f"tensor.{TF32}" not in view.machine.peaks or not items:
        return
    settings = Settings(tf32=True, conv_tf32=True)
    times = recounted(view, items, unchanged, settings)
    narrow = recounted(view, items, in_format(FP32, BF16), settings)
    if not times:
        return
    gain, device = price(view, times)
    spent = sum(group.time for group in times)
    bf16 = price(view, narrow)[0] if narrow else 0.0
    evidence = (
        f"{show(spent, 's', 3)} per step in fp32 products without tensor cores",
        f"expected {show(total(times), 's', 3)} in tf32; in bf16 the step is {show(bf16, 's', 3)} shorter",
    )
    ways = [text for text, images in TF32_SWITCHES.items() if any(is_on_images(item) == images for item in items)]
    move = f"{' and '.join(ways)} for tf32, or autocast to bf16"
    yield Move("fp32 products", "fp32 products on the vector units", move, gain, evidence, device=device,
               sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip


def narrower(view: View) -> Iterator[Move]:
    """Products in tf32: bf16 halves their bytes and doubles their rate."""
    items = [item for item in view.items if _is_product(item, TF32)]
    if view.kept.on_host or f"tensor.{BF16}" not in view.machine.peaks or not items:
        return
    times = recounted(view, items, in_format(FP32, BF16), Settings())
    if not times:
        return
    between = recounted(view, [item for item in view.items if _takes_its_format(item)], in_format(FP32, BF16))
    changed = with_times(view, {**times, **between})
    gain, device = price_runs(view, changed, launches=_casts(view, items))
    spent, halved = sum(group.time for group in times), sum(group.time for group in between)
    evidence = (
        f"{show(spent, 's', 3)} per step in tf32 products; expected {show(total(times), 's', 3)} in bf16",
        f"{show(halved, 's', 3)} on the tensors between them; expected {show(total(between), 's', 3)} in bf16",
    )
    move = "run products in bf16: torch.autocast('cuda', torch.bfloat16)"
    yield Move("tf32 products", "tf32 products where bf16 would do", move, gain, evidence, device=device,
               sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip


def accidental_fp64(view: View) -> Iterator[Move]:
    """Operators on fp64 tensors in a step whose parameters are fp32: a constant, an array of NumPy or a cast made them so."""
    formats = {tensor.dtype for tensor in view.kept.timeline.gradients}
    items = [item for item in view.items if any(map(_is_double, item.group.owner.call.tensors))]
    if FP64 in formats or not items or (not formats and len(items) == len(view.items)):
        return
    times = recounted(view, items, in_format(FP64, FP32))
    if not times:
        return
    gain, device = price(view, times)
    spent, first = sum(group.time for group in times), min(times, key=lambda group: int(group.runs[0]))
    known = f"parameters are {', '.join(sorted(formats))}" if formats else "other operators are not in fp64"
    evidence = (
        f"{show(spent, 's', 3)} per step in {counted(len(times), 'operator')} on fp64 tensors, first {first.name}; {known}",
        f"expected {show(total(times), 's', 3)} in fp32",
    )
    move = "keep fp32: dtype=torch.float32 where tensors are made from NumPy arrays or Python floats, no .double()"
    yield Move("accidental fp64", "fp64 arithmetic on a model in fp32", move, gain, evidence, device=device,
               sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip


def _is_double(tensor: Tensor) -> bool:
    """Whether it is a tensor of fp64; a single number of Python is passed as one and changes nothing."""
    return tensor.dtype == FP64 and prod(tensor.shape) > 1


def _is_product(item: OpItem, dtype: str) -> bool:
    """Whether its arithmetic is mostly a product of matrices of fp32 tensors, run in this format."""
    work = item.group.owner.work
    tensors = item.group.owner.call.tensors
    if work is None or not tensors or tensors[0].dtype != FP32:
        return False
    return any(engine == "matrix" and name == dtype for engine, name in work.by_engine())


def _casts(view: View, products: list[OpItem]) -> Floats:
    """Launches that autocast adds before each run: the casts of the weight or its gradient at every call of a product."""
    launches = np.zeros(len(view.kept.places))
    for item in products:
        launches[item.group.runs] = CASTS / item.group.launches
    return launches


def _takes_its_format(item: OpItem) -> bool:
    """Whether it runs in the format of the products around it under autocast: activations, and what is done to images."""
    owned = item.group.owner
    if owned.work is None or item.group.phase == OPTIMIZER or owned.work.family not in ("stream", "rows"):
        return False
    between = base_name(owned.name).strip("_") in ACTIVATIONS or is_on_images(item)
    return between and owned.call.tensors[0].dtype == FP32
