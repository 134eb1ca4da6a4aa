"""The timeline of JAX traces: instructions, shapes and lines of the compiled program, replays of command buffers."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.timeline import Call, Site, Tensor
from ridgeline.profilers.jax_profiler import copies, hlo, replays, versions, wire
from ridgeline.profilers.jax_profiler.operators import product
from ridgeline.profilers.jax_profiler.timeline import _Gathered, _with_updates
from ridgeline.profilers.load import timeline

JAX = Path(__file__).parents[1] / "fixtures" / "jax"
MLP = JAX / "h200_mlp.trace.json.gz"


def test_a_training_step_of_a_perceptron() -> None:
    """Three layers, 1024-8192-8192-1024, batch 8192: 2mnk flops of the products are 6 x batch x weights less 2 of dx."""
    line = timeline(MLP)
    assert (line.steps.how, len(line.steps)) == ("repetition", 6)
    inside = np.flatnonzero(line.runs.step == 2)
    assert line.runs.graph[inside].all()
    products = [
        line.sites[line.runs.site[place]]
        for place in inside
        if line.sites[line.runs.site[place]].call.name.startswith("aten::")
    ]
    flops = 0.0
    for site in products:
        (m, k), (_, n) = (tensor.shape for tensor in site.call.tensors[-2:])
        flops += 2.0 * m * n * k
    weights = [1024 * 8192, 8192 * 8192, 8192 * 1024]
    assert flops == 2 * 8192 * (3 * sum(weights) - weights[0])  # the input of the first layer needs no gradient
    assert {site.phase for site in products} == {"forward", "backward"}
    assert sum(site.phase == "forward" for site in products) == 3
    assert {site.source for site in products} == {
        "examples/scripts/jax_mlp.py:12 (predict)",
        "examples/scripts/jax_mlp.py:14 (predict)",
    }


def test_products_take_as_long_as_their_size_says() -> None:
    """A second way to the join of library kernels: at 2mnk flops each, all run at 500 to 990 TFLOP/s of bf16."""
    line = timeline(MLP)
    for place in np.flatnonzero(line.runs.step >= 0):
        site = line.sites[line.runs.site[place]]
        if site.call.name in ("aten::mm", "aten::addmm"):
            (m, k), (_, n) = (tensor.shape for tensor in site.call.tensors[-2:])
            rate = 2.0 * m * n * k / (line.runs.end[place] - line.runs.start[place])
            assert 500e12 < rate < 990e12


def test_fusions_have_their_tensors_and_operations() -> None:
    line = timeline(MLP)
    gelu = next(site for site in line.sites if site.call.name == "loop_convert_multiply_fusion")
    assert gelu.fused == ("add", "multiply", "tanh")
    assert [tensor.shape for tensor in gelu.call.tensors] == [(8192, 8192)] * 3  # an operand and two results
    update = next(site for site in line.sites if site.call.name == "wrapped_subtract")
    assert update.phase == "optimizer"
    assert update.source == "examples/scripts/jax_mlp.py:26 (train_step.<locals>.<lambda>)"


def test_without_the_program_names_and_times_are_left(tmp_path: Path) -> None:
    shutil.copy(MLP, tmp_path)
    line = timeline(tmp_path / MLP.name)
    assert not line.shapes
    assert any("shapes and source lines are not known" in note for note in line.notes)
    assert len(line.runs) == len(timeline(MLP).runs)
    assert (line.steps.how, len(line.steps)) == ("repetition", 6)


def test_the_binary_profile_names_its_trace(tmp_path: Path) -> None:
    assert len(timeline(JAX / "h200_mlp.xplane.pb").runs) == len(timeline(MLP).runs)
    alone = tmp_path / "h200_mlp.xplane.pb"
    shutil.copy(JAX / alone.name, alone)
    with pytest.raises(InputError, match=r"h200_mlp\.trace\.json\.gz' is missing"):
        timeline(alone)


def test_a_broken_program_is_said(tmp_path: Path) -> None:
    shutil.copy(MLP, tmp_path)
    whole_program = (JAX / "h200_mlp.xplane.pb").read_bytes()
    (tmp_path / "h200_mlp.xplane.pb").write_bytes(whole_program[: len(whole_program) // 2])
    line = timeline(tmp_path / MLP.name)
    assert any("were not read" in note for note in line.notes)


@pytest.mark.parametrize("name", ["trace_cpu.trace.json.gz", "handmade_gpu.trace.json"])
def test_time_is_counted_once(name: str) -> None:
    """Against the observations of the same trace, which sum the time of an op less that of the ops inside it."""
    from ridgeline.profilers import jax_profiler

    line = timeline(JAX / name)
    summed = sum(sum(item.samples) for item in jax_profiler.read(JAX / name))
    assert float((line.runs.end - line.runs.start).sum()) == pytest.approx(summed, rel=1e-6)


@pytest.mark.parametrize(
    ("left", "right", "dims", "sizes"),
    [
        ((8, 4), (4, 6), ((1,), (0,), (), ()), [(8, 4), (4, 6)]),
        ((4, 8), (6, 4), ((0,), (1,), (), ()), [(8, 4), (4, 6)]),
        ((2, 8, 4), (2, 4, 6), ((2,), (1,), (0,), (0,)), [(2, 8, 4), (2, 4, 6)]),
        ((3, 8, 4), (4, 6), ((2,), (0,), (), ()), [(24, 4), (4, 6)]),
    ],
)
def test_products_by_the_dimensions_they_sum(left, right, dims, sizes) -> None:  # type: ignore[no-untyped-def]
    call = product(Tensor(left, "bf16"), Tensor(right, "bf16"), dims, ())
    assert [tensor.shape for tensor in call.tensors] == sizes


def test_a_replay_of_another_program_is_not_joined() -> None:
    (module,) = hlo.modules(JAX / "h200_mlp.xplane.pb")["jit_train_step"]
    assert not any(
        replays.instructions(module, ["wrapped_subtract", "loop_convert_multiply_fusion"])
    )  # inputs are missing


def test_a_graph_that_goes_on_from_kernels_with_names_is_joined() -> None:
    """The rest of a step's kernels, where the trace names the first ones: each is what it is in the entire step."""
    (module,) = hlo.modules(JAX / "h200_mlp.xplane.pb")["jit_train_step"]
    line = timeline(MLP)
    inside = np.flatnonzero(line.runs.step == 2)
    kernels = [name for place in inside if "Memset" not in (name := line.activities[line.runs.activity[place]].kernel)]
    entire = replays.instructions(module, kernels)
    assert all(entire)
    for begin in (1, 4, 11):
        assert not any(replays.instructions(module, kernels[begin:]))
        assert replays.instructions(module, kernels[begin:], entire[:begin]) == entire[begin:]
    gathered = _Gathered({"jit_train_step": [module]})  # a kernel that was not joined has the shapes of its name
    site = gathered.site("jit_train_step", "", "gemm_fusion_dot_general_10", {}, "kernel")
    assert gathered.sites[site].call.name == "aten::mm"


@pytest.mark.parametrize(
    ("grid", "shape"),
    [(32768, (4096, 4096)), (8192, (1024, 4096)), (32, (4096,)), (5, (2200,)), (7, None), (200000, None)],
)
def test_an_op_run_by_itself_is_that_of_its_launch(grid: int, shape: tuple[int, ...] | None) -> None:
    """`jit_add` was compiled for five sizes. Blocks of 128 threads compute 4 elements each, of short arrays 1."""
    shapes = [(4096, 4096), (1024, 4096), (4096, 1024), (4096,), (2200,)]
    versions = []
    for number, sizes in enumerate(shapes):
        tensor = Tensor(sizes, "fp32")
        read = hlo.Instruction("parameter", "parameter", (tensor,), 1)
        item = hlo.Instruction("wrapped_add", "fusion", (tensor,), 2, (1, 1), op_name=f"jit(add)/{number}")
        versions.append(hlo.Module("jit_add", {number: (read, item)}))
    gathered = _Gathered({"jit_add": versions})
    args = {"kernel_details": f"regs:16 static_shared:0 dynamic_shared:0 grid:{grid},1,1 block:128,1,1 occ_pct:100"}
    call = gathered.sites[gathered.site("jit_add", "wrapped_add", "wrapped_add", args, "kernel")].call
    assert call.args == ((Tensor(shape, "fp32"),) * 3 if shape else ())


def message(*parts: tuple[int, int | bytes]) -> bytes:
    """A message of numbers and bytes, by the number of their field."""
    written = b""
    for number, value in parts:
        if isinstance(value, int):
            written += wire.varint(number << 3) + wire.varint(value & (1 << 64) - 1)
        else:
            written += wire.varint(number << 3 | 2) + wire.varint(len(value)) + value
    return written


@pytest.mark.parametrize(("plane", "key"), [("/device:GPU:0", "correlation_id"), ("/host:CPU", "run_id")])
def test_the_profile_says_which_version_of_a_program_ran(plane: str, key: str, tmp_path: Path) -> None:
    """Runs 11 and -3 (as the host numbers them) ran programs 300 and 7; the third event is of no program."""
    names = {1: key, 300: "program_id"}
    stats = [message((1, number), (2, message((1, number), (2, name.encode())))) for number, name in names.items()]
    events = [
        message((4, message((1, 1), (4, run))), (4, message((1, 300), (4, program))))
        for run, program in [(11, 300), (-3, 7)]
    ]
    events.append(message((4, message((1, 1), (4, 12)))))
    line = message(*((4, event) for event in events))
    space = message((1, message((2, plane.encode()), (3, line), *((5, stat) for stat in stats))))
    (tmp_path / "x.xplane.pb").write_bytes(space)
    ran = versions.programs_of_runs(tmp_path / "x.xplane.pb")
    assert ran == {11: 300, versions.run_number({"run_id": "-3"}): 7}
    made = [
        hlo.Module(
            "jit_add",
            {1: (hlo.Instruction("parameter", "parameter", (Tensor((n,), "fp32"),), 1),
                 hlo.Instruction("wrapped_add", "fusion", (Tensor((n,), "fp32"),), 2, (1, 1)))},
            number=number,
        )
        for n, number in ((64, 7), (8, 300))
    ]  # fmt: skip
    gathered = _Gathered({"jit_add": made}, ran)
    sites = [gathered.site("jit_add", "wrapped_add", "", {}, "operator", versions.run_number({key: run})) for run in ("11", "-3", "12")]  # fmt: skip
    shapes = [[tensor.shape for tensor in gathered.sites[site].call.tensors] for site in sites]
    assert shapes == [[(8,)] * 3, [(64,)] * 3, []]  # the last one may be either


@pytest.mark.parametrize(
    ("name", "details", "names"),
    [
        ("MemcpyH2D", "kind_src:pageable kind_dst:device size:64 dest:0 async:1", ("Memcpy HtoD", "Memcpy HtoD (Pageable -> Device)")),
        ("MemcpyD2H", "", ("Memcpy DtoH", "Memcpy DtoH")),
        ("MemcpyOther", "size:8", ("MemcpyOther", "MemcpyOther")),
    ],
)  # fmt: skip
def test_copies_have_the_names_and_sizes_of_other_profilers(name: str, details: str, names: tuple[str, str]) -> None:
    assert copies.copy_names(name, details) == names
    assert copies.copied_size({"memcpy_details": details}).get("bytes", 0) == (64 if "64" in details else 8 if "8" in details else 0)  # fmt: skip
    assert copies.copied_size({"Memset_details": "kind:device num_bytes:4 async:1"}) == {"bytes": 4}


def test_operations_after_the_gradients_update_parameters() -> None:
    """Two steps: an operation before, a program that differentiates, two operations after, one of which runs before it too."""
    gathered = _Gathered({}, sites=[Site(Call(name), phase) for name, phase in (("add", "forward"), ("dx", "backward"), ("multiply", "forward"), ("subtract", "other"))], differentiated={1})  # fmt: skip
    site = np.array([0, 1, 2, 3, 0, 2, 1, 3])
    phases = [item.phase for item in _with_updates(gathered, site, np.repeat([0, 1], 4))]
    assert phases == ["forward", "backward", "forward", "optimizer"]
    assert [item.phase for item in _with_updates(gathered, site, np.full(8, -1))][3] == "other"


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        for number, value in wire.fields(memoryview(data)):
            assert number >= 0
            assert isinstance(value, int | memoryview)
    except InputError:
        pass


def marked_trace(folder: Path, lengths: list[float]) -> Path:
    """Steps that the program marks, each a kernel of the given length on a GPU."""
    events: list[dict[str, object]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
        {"ph": "M", "pid": 1, "tid": 14, "name": "thread_name", "args": {"name": "Stream #14(Compute)"}},
        {"ph": "M", "pid": 2, "name": "process_name", "args": {"name": "/host:CPU"}},
    ]
    at = 1000.0
    for number, length in enumerate(lengths):
        correlation = str(number + 1)
        events += [
            {"ph": "X", "pid": 2, "tid": 1, "ts": at, "dur": length + 50, "name": "train", "args": {"step_num": str(number)}},
            {"ph": "X", "pid": 2, "tid": 1, "ts": at + 5, "dur": 4, "name": "loop_add_fusion",
             "args": {"correlation_id": correlation}},
            {"ph": "X", "pid": 1, "tid": 14, "ts": at + 20, "dur": length, "name": "loop_add_fusion",
             "args": {"hlo_module": "jit_step", "hlo_op": "loop_add_fusion", "correlation_id": correlation}},
        ]  # fmt: skip
        at += length + 60
    path = folder / "made.trace.json"
    path.write_text(json.dumps({"metadata": {"highres-ticks": True}, "traceEvents": events}), encoding="utf-8")
    return path


def test_marked_steps_and_their_warm_up(tmp_path: Path) -> None:
    line = timeline(marked_trace(tmp_path, [900, 100, 100, 100, 110, 100]))
    assert (line.steps.how, len(line.steps), line.steps.warmup) == ("marked", 5, 1)
    assert line.runs.step.tolist() == [-1, 0, 1, 2, 3, 4]
    assert line.steps.end - line.steps.start == pytest.approx([160e-6, 160e-6, 160e-6, 170e-6, 160e-6])
    assert line.runs.launched - line.runs.start == pytest.approx([-11e-6] * 6)


def test_a_recorded_program_with_a_convolution() -> None:
    line = timeline(JAX / "train_cpu.trace.json.gz")
    assert (line.steps.how, len(line.steps) + line.steps.warmup) == ("marked", 4)
    forward, gradient = sorted(
        (site for site in line.sites if site.call.name == "aten::convolution"),
        key=lambda site: site.phase,
        reverse=True,
    )
    assert (forward.phase, gradient.phase) == ("forward", "backward")
    assert [tensor.shape for tensor in forward.call.tensors] == [(32, 4, 16, 16), (8, 4, 3, 3)]
    assert forward.call.args[3:] == ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    assert forward.source == "jax/record.py:35 (train.<locals>.loss)"
    for site in (forward, gradient):  # both have 2 x 32 x 16 x 16 x 8 x 4 x 3 x 3 flops, less what the padding saves
        (n, _, *image), (out, features, *window) = (tensor.shape for tensor in site.call.tensors)
        results = [size + 2 - width + 1 for size, width in zip(image, window, strict=True)]
        assert 2 * n * math.prod(results) * out * features * math.prod(window) == 2 * 32 * 16 * 16 * 8 * 4 * 3 * 3
    assert {site.phase for site in line.sites if "subtract_fusion" in site.call.name} == {"optimizer"}


def executed(folder: Path, orders: list[str], run_ids: bool = True) -> Path:
    """A CPU's trace of one program, its instructions in these orders in one execution after the other."""
    events: list[dict[str, object]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}}]
    for run, order in enumerate(orders, start=7):
        for place, name in enumerate(order):
            args = {"hlo_module": "jit_step", "hlo_op": name} | ({"run_id": str(run)} if run_ids else {})
            event = {
                "ph": "X",
                "pid": 1,
                "tid": 5,
                "ts": 100.0 * run + 10 * place,
                "dur": 8.0,
                "name": name,
                "args": args,
            }
            events.append(event)
    path = folder / "run.trace.json"
    path.write_text(json.dumps({"metadata": {"highres-ticks": True}, "traceEvents": events}), encoding="utf-8")
    return path


def test_steps_are_executions_whatever_order_their_instructions_ran_in(tmp_path: Path) -> None:
    orders = ["abcd", "abdc", "acbd", "abcd", "adbc"]
    line = timeline(executed(tmp_path, orders))
    assert (line.steps.how, len(line.steps)) == ("repetition", 5)
    assert line.runs.step.tolist() == [step for step in range(5) for _ in "abcd"]
    assert timeline(executed(tmp_path, orders, run_ids=False)).steps.how == "single"
