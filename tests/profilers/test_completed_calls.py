"""What a recording leaves out of a call and shows elsewhere: the indices of `x[i]`, and how much a sparse tensor stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from profilers.made_traces import MadeTrace
from ridgeline.core.timeline import Call, Tensor
from ridgeline.profilers.load import timeline


def call(trace: MadeTrace, name: str, at: float, length: float, *args: Any) -> None:
    """A call with arguments as Kineto writes them: a shape with strides, a text, or () for what it leaves out."""
    tensors = [arg if isinstance(arg, tuple) else () for arg in args]
    trace.span(
        "cpu_op", name, at, length,
        **{
            "Input Dims": [list(arg[0]) if arg else [] for arg in tensors],
            "Input Strides": [list(arg[1]) if arg else [] for arg in tensors],
            "Input type": [arg[2] if arg else "" for arg in tensors],
            "Concrete Inputs": [arg if isinstance(arg, str) else "" for arg in args],
        },
    )  # fmt: skip


TABLE = ((100, 8), (8, 1), "float")


def recorded(trace: MadeTrace, folder: Path) -> dict[str, Call]:
    return {site.call.name: site.call for site in timeline(trace.write(folder)).sites}


def test_indices_and_results_of_indexing_are_those_of_its_inner_calls(tmp_path: Path) -> None:
    """x[:, i] with 30 indices: the second dimension is repeated, the first one is kept."""
    trace = MadeTrace()
    call(trace, "aten::index", 0, 50, TABLE, ())
    call(trace, "aten::as_strided", 5, 2, TABLE, "[100, 30]", "[8, 0]")
    call(trace, "aten::reshape", 10, 2, ((30,), (1,), "long int"), "[1, 30]")
    trace.kernel("index_kernel", 20, 5)
    made = recorded(trace, tmp_path)["aten::index"]
    assert made.args[1] == (None, Tensor((30,), "int64"))
    assert made.outputs == (Tensor((100, 30), "fp32"),)


def test_indexing_without_such_calls_stays_as_it_was_recorded(tmp_path: Path) -> None:
    trace = MadeTrace()
    call(trace, "aten::index", 0, 50, TABLE, ())
    call(trace, "aten::as_strided", 5, 2, ((30, 1), (1, 1), "long int"), "[30]", "[1]")  # of a mask's places
    trace.kernel("index_kernel", 20, 5)
    made = recorded(trace, tmp_path)["aten::index"]
    assert made.args[1] is None
    assert not made.outputs


def test_a_tensor_without_strides_is_sparse_and_holds_what_it_was_made_of(tmp_path: Path) -> None:
    trace = MadeTrace()
    places, values = ((2, 90), (90, 1), "long int"), ((90,), (1,), "float")
    maker = "aten::_sparse_coo_tensor_with_dims_and_tensors"
    call(trace, maker, 0, 5, "2", "0", "[100, 100]", places, values)
    for at, sizes in ((10, (100, 100)), (50, (50, 50))):
        call(trace, "aten::mm" if at == 10 else "aten::addmv", at, 20, (sizes, (), "float"), TABLE)
        trace.kernel("spmm", at + 5, 5)
    made = recorded(trace, tmp_path)
    assert made["aten::mm"].args == (Tensor((100, 100), "fp32", (), True, (90,)), Tensor((100, 8), "fp32", (8, 1)))
    assert made["aten::addmv"].args[0] == Tensor((50, 50), "fp32", (), True)


def test_nothing_is_sparse_where_no_strides_were_recorded(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.op("aten::mm", 0, 20, shapes=((4, 4), (4, 4)))
    trace.kernel("gemm", 5, 5)
    assert not any(tensor.sparse for tensor in recorded(trace, tmp_path)["aten::mm"].tensors)
