"""Calls of compiled instructions: loops own nothing, slices count and not what they are of, convolutions padded on one side."""

from __future__ import annotations

from ridgeline.core.timeline import Call, Tensor
from ridgeline.profilers.jax_profiler.hlo import Convolved, Instruction, Module
from ridgeline.profilers.jax_profiler.operators import call_of, fused_operators
from ridgeline.programs.aten import count

ROWS, ROW, FLAT = (Tensor(shape, "fp32") for shape in ((32, 16), (1, 16), (16,)))


def parameter(ident: int, tensor: Tensor) -> Instruction:
    return Instruction(f"parameter.{ident}", "parameter", (tensor,), ident)


def test_a_loop_has_no_work_of_its_own() -> None:
    body = (parameter(5, ROWS), Instruction("add.1", "add", (ROWS,), 6, (5, 5)))
    loop = Instruction("while.25", "while", (ROWS,), 2, (1,), (9,))
    module = Module("jit_step", {1: (parameter(1, ROWS), loop), 9: body})
    assert call_of(module, loop) == Call("while.25")
    assert fused_operators(module, loop) == ()
    assert count(call_of(module, loop)).kind == "wrapper"


def test_a_slice_of_a_stack_is_read_and_written_and_not_the_stack() -> None:
    """A fusion in the body of a scan: a row of one stack is read, another one gets a row in place."""
    inside = (
        parameter(10, ROWS),
        parameter(11, ROWS),
        parameter(12, FLAT),
        Instruction("dynamic-slice.1", "dynamic-slice", (ROW,), 13, (10,)),
        Instruction("multiply.1", "multiply", (ROW,), 14, (13, 12)),
        Instruction("dynamic-update-slice.1", "dynamic-update-slice", (ROWS,), 15, (11, 14)),
    )
    fusion = Instruction("multiply_fusion", "fusion", (ROWS,), 4, (1, 2, 3), (9,))
    outside = (parameter(1, ROWS), parameter(2, ROWS), parameter(3, FLAT), fusion)
    module = Module("jit_step", {1: outside, 9: inside})
    assert call_of(module, fusion).args == (ROW, FLAT, ROW)


def test_padding_on_one_side_is_a_larger_image() -> None:
    """`SAME` with a stride of 2 over 32 x 32: nothing before, one after; 16 x 16 results."""
    image, weights, out = (Tensor(shape, "fp32") for shape in ((4, 32, 32, 8), (3, 3, 8, 16), (4, 16, 16, 16)))
    where = Convolved((0, 3, 1, 2), (3, 2, 0, 1), (2, 2), ((0, 1), (0, 1)), (1, 1), 1)
    item = Instruction("convolution.1", "convolution", (out,), 3, (1, 2), convolved=where)
    module = Module("jit_step", {1: (parameter(1, image), parameter(2, weights), item)})
    call = call_of(module, item)
    assert (call.name, call.args[0].shape) == ("aten::convolution", (4, 8, 33, 33))
    made = count(call, leaf=True).work
    assert made is not None
    assert made.flops == 2 * 4 * 16 * 16 * 16 * 9 * 8
