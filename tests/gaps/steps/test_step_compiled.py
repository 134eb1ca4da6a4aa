"""Kernels that a compiler made, copies, fills and collectives: their bytes, counted a second way from shapes."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import tensor

from ridgeline.core.timeline import COLLECTIVE, COPY, FILL, KERNEL, Activity, Call, Site
from ridgeline.gaps.steps.compiled import compiled_work, is_compiled, sort_of
from ridgeline.gaps.steps.moved import collective_work, copied_work, direction, filled_work, is_transfer
from ridgeline.machines.load import load

H200 = load("h200-sxm")
KERNEL_OF = Activity(KERNEL, "triton_poi_fused_add_0")


def site(name: str, fused: tuple[str, ...], *shapes: tuple[int, ...], dtype: str = "bf16") -> Site:
    return Site(Call(name, tuple(tensor(*shape, dtype=dtype) for shape in shapes)), fused=fused)


@given(st.lists(st.lists(st.integers(1, 64), min_size=1, max_size=3), min_size=2, max_size=5))
def test_every_tensor_of_a_compiled_kernel_is_moved_once(shapes: list[list[int]]) -> None:
    """Reductions have no tensor in place: the bytes are the sum of the sizes."""
    work, reason = compiled_work(site("triton_red_fused_sum_0", ("sum",), *map(tuple, shapes)), KERNEL_OF)
    assert reason == ""
    assert work is not None
    assert work.bytes == sum(2 * prod(shape) for shape in shapes)


@pytest.mark.parametrize(
    ("name", "fused", "shapes", "tensors"),
    [
        ("triton_poi_fused_gelu_1", ("gelu",), ((64, 64), (64, 64)), 2),  # one read, one written
        ("triton_poi_fused_gelu_backward_2", ("gelu_backward",), ((64, 64), (64, 64)), 3),  # the gradient in place
        ("triton_poi_fused_add_3", ("add",), ((64, 64), (64,)), 2 + 1 / 64),  # updated in place, and a bias
        ("triton_poi_fused_add_mul_4", ("add", "mul"), ((64, 64), (64, 64), (64, 64)), 3),
    ],
)
def test_a_tensor_that_is_updated_in_place_is_read_and_written(
    name: str, fused: tuple[str, ...], shapes: tuple[tuple[int, ...], ...], tensors: float
) -> None:
    work, _ = compiled_work(site(name, fused, *shapes), KERNEL_OF)
    assert work is not None
    assert work.bytes == tensors * 64 * 64 * 2


def test_of_a_table_only_the_gathered_rows_are_read() -> None:
    work, _ = compiled_work(site("triton_red_fused_embedding_mean_0", ("embedding", "mean"), (8, 128), (128256, 4096), (8, 128, 4096)), KERNEL_OF)  # fmt: skip
    assert work is not None
    assert work.bytes == 2 * (8 * 128 + 2 * 8 * 128 * 4096)


def test_templates_and_kernels_without_tensors_are_not_counted() -> None:
    for name, shapes in (("triton_tem_fused_mm_0", ((64, 64),)), ("triton_poi_fused_add_0", ())):
        work, reason = compiled_work(site(name, ("mm",), *shapes), KERNEL_OF)
        assert work is None
        assert reason
    assert sort_of("triton_per_fused_sum_1") == "per"
    assert sort_of("gemm") == ""
    assert not is_compiled(Site(Call("aten::mm")), Activity(KERNEL, "nvjet"))


def test_copies_by_direction() -> None:
    there = Activity(COPY, "memcpy HtoD", "Memcpy HtoD (Pinned -> Device)", settings={"bytes": 1000})
    inside = Activity(COPY, "memcpy DtoD", "Memcpy DtoD (Device -> Device)", settings={"bytes": 1000})
    assert (direction(there), is_transfer(there), is_transfer(inside)) == ("HtoD", True, False)
    work, _ = copied_work(there, H200)
    assert work is not None
    assert work.moves == {("pcie", "data", "read"): 1000}
    work, _ = copied_work(inside, H200)
    assert work is not None
    assert work.bytes == 2000  # read and written
    assert copied_work(Activity(COPY, "memcpy HtoD"), H200)[0] is None
    work, reason = copied_work(there, load("tpu-v5e"))
    assert (work is None) == ("no figure" in reason)
    work, _ = filled_work(Activity(FILL, "memset", settings={"bytes": 1000}))
    assert work is not None
    assert work.bytes == 1000


def test_collectives_by_their_larger_buffer() -> None:
    settings = {"ranks": 8, "dtype": "bf16", "elements_in": 1000, "elements_out": 8000}
    work, _ = collective_work(Activity(COLLECTIVE, "all_gather", settings=settings))
    assert work is not None
    assert work.bytes_at("link") == pytest.approx(16000 * 7 / 8)
    assert collective_work(Activity(COLLECTIVE, "all_gather", settings={**settings, "ranks": 1}))[0] is None
    assert "no rule" in collective_work(Activity(COLLECTIVE, "dance", settings=settings))[1]
