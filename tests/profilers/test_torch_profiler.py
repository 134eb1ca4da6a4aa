"""torch.profiler: kernels joined to what launched them, host gaps, and traces that are cut, broken or large."""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError
from ridgeline.profilers import chrome_trace, torch_profiler
from ridgeline.profilers.chrome_trace import OP, items, nested
from ridgeline.profilers.live import observe
from ridgeline.profilers.load import load as recognised
from ridgeline.profilers.torch_profiler import load, read
from ridgeline.profilers.torch_profiler.events import short
from ridgeline.profilers.torch_profiler.results import idle_times, observations

FIXTURES = Path(__file__).parents[1] / "fixtures" / "torch"
HANDMADE = FIXTURES / "handmade_gpu.json"
RECORDED = sorted(FIXTURES.glob("trace_*.json.gz"))
US = 1e-6


def gaps(path: Path) -> dict[str, Any]:
    return idle_times(load(path))


def by_name(path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in read(path):
        found.setdefault(item.name, []).append(item)
    return found


class Story:
    """A trace told event by event; times in microseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, category: str, name: str, start: float, length: float, lane: int = 1, **args: Any) -> Story:
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": lane,
                "tid": lane,
                "ts": start,
                "dur": length,
                "args": args,
            }
        )
        return self

    def op(self, name: str, start: float, length: float, lane: int = 1, **args: Any) -> Story:
        return self.add("cpu_op", name, start, length, lane, **args)

    def launch(
        self, start: float, length: float, correlation: int, lane: int = 1, call: str = "cudaLaunchKernel"
    ) -> Story:
        return self.add("cuda_runtime", call, start, length, lane, correlation=correlation)

    def kernel(self, name: str, start: float, length: float, correlation: int = 0, **args: Any) -> Story:
        return self.add("kernel", name, start, length, 0, device=0, stream=7, correlation=correlation, **args)

    def write(self, folder: Path, **header: Any) -> Path:
        path = folder / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": self.events}))
        return path


# -- kernels and what launched them -------------------------------------------------------------------------


def test_kernels_are_joined_to_op_shapes_and_modules() -> None:
    product, reduction = by_name(HANDMADE)["aten::addmm"]
    assert product.kernel.startswith("nvjet_hsh_128x256")
    assert short(reduction.kernel) == "splitKreduce_kernel"
    for item in (product, reduction):
        assert item.path == ("forward", "Net_0", "Linear_0")
        assert item.settings["ops"] == ["aten::linear", "aten::addmm"]
        # bias, input, transposed weight; alpha and beta are scalars
        assert item.settings["shapes"] == [[512], [1024, 4096], [4096, 512]]
        assert item.settings["dtypes"] == ["bf16"] * 3
        assert item.settings["calls"] == item.settings["count"] == 2
    # two steps: 50 and 50 + 2 us, 10 and 10 + 1 us
    assert product.samples == pytest.approx((50 * US, 52 * US), rel=1e-6)
    assert reduction.samples == pytest.approx((10 * US, 11 * US), rel=1e-6)


def test_launch_settings_and_conditions_come_along() -> None:
    product = by_name(HANDMADE)["aten::addmm"][0]
    wanted = {"grid": (4, 8, 1), "block": (384, 1, 1), "registers": 168, "shared_memory": 213248, "stream": 7}
    assert {key: product.settings[key] for key in wanted} == wanted
    assert product.settings["occupancy_estimate"] == 0.19
    assert "not counted" in product.defined["settings.occupancy_estimate"]
    assert "graph" not in product.settings  # graph id 0 is no graph
    assert product.conditions["device"] == "NVIDIA H200"
    assert product.conditions["cuda_runtime_version"] == 12080
    assert product.tool == "torch.profiler"


def test_observations_keep_the_order_of_first_appearance() -> None:
    assert [item.name for item in read(HANDMADE)] == [
        "memcpy HtoD",
        "aten::addmm",
        "aten::addmm",
        "aten::_softmax",
        "scale_kernel",
        "aten::mm",
        "all_reduce",
        "memset",
    ]


def test_kernel_without_an_op_has_its_own_name_and_the_modules_around_its_launch() -> None:
    (own,) = by_name(HANDMADE)["scale_kernel"]
    assert own.path == ("forward", "Net_0")
    assert "op" not in own.settings


def test_backward_kernel_stands_where_its_forward_op_stood() -> None:
    (product,) = by_name(HANDMADE)["aten::mm"]
    assert product.path == ("forward", "Net_0", "Linear_0")
    assert product.settings["pass"] == "backward"
    assert "pass" not in by_name(HANDMADE)["aten::addmm"][0].settings


def test_copies_fills_and_collectives_are_named_as_such() -> None:
    found = by_name(HANDMADE)
    (copy,), (fill,), (collective,) = found["memcpy HtoD"], found["memset"], found["all_reduce"]
    assert (copy.settings["kind"], copy.settings["op"], copy.settings["bytes"]) == ("memcpy", "aten::copy_", 8388608)
    assert (fill.settings["kind"], fill.settings["bytes"]) == ("memset", 4194304)
    # 512 x 4096 gradients in bf16 between two ranks; the two calls differ in their sequence number only
    wanted = {"kind": "collective", "ranks": 2, "elements_in": 512 * 4096, "dtype": "bf16", "count": 2}
    assert {key: collective.settings[key] for key in wanted} == wanted


def test_no_bytes_and_no_flops_are_claimed() -> None:
    """The allocator's 8 MB in the trace are no traffic, and the profiler counted nothing."""
    for path in (HANDMADE, *RECORDED):
        assert not any(item.bytes or item.flops or item.counters for item in read(path))


def test_allocator_events_change_nothing(tmp_path: Path) -> None:
    trace = json.loads(HANDMADE.read_text())
    kept = [event for event in trace["traceEvents"] if event["name"] != "[memory]"]
    assert len(kept) == len(trace["traceEvents"]) - 2
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**trace, "traceEvents": kept}))
    assert to_document(read(path)) == to_document(read(HANDMADE))


def test_without_external_ids_thread_and_time_join(tmp_path: Path) -> None:
    trace = json.loads(HANDMADE.read_text())
    for event in trace["traceEvents"]:
        event.get("args", {}).pop("External id", None)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    assert to_document(read(path)) == to_document(read(HANDMADE))


def test_other_threads_do_not_lend_their_ops(tmp_path: Path) -> None:
    story = Story().op("aten::mm", 0, 10, lane=1).op("aten::add", 0, 10, lane=2)
    (item,) = read(story.launch(5, 1, 9, lane=2).kernel("k", 20, 3, 9).write(tmp_path))
    assert item.name == "aten::add"


def test_neighbours_that_touch_are_not_nested(tmp_path: Path) -> None:
    """At 4e12 us a start and a length add up to half a nanosecond more or less."""
    at = 3861379100157.535
    story = Story().op("aten::first", at, 12.345).op("aten::second", round(at + 12.345, 3), 5.0)
    assert [item.settings["ops"] for item in read(story.write(tmp_path))] == [["aten::first"], ["aten::second"]]


def test_one_graph_launch_starts_many_kernels(tmp_path: Path) -> None:
    story = Story().add("user_annotation", "replay", 0, 100).launch(10, 20, 5, call="cudaGraphLaunch")
    story.kernel("first", 40, 3, 5, **{"graph id": 2}).kernel("second", 50, 4, 5, **{"graph id": 2})
    assert [(item.name, item.path, item.settings["graph"]) for item in read(story.write(tmp_path))] == [
        ("first", ("replay",), 2),
        ("second", ("replay",), 2),
    ]


def test_kernels_of_a_graph_do_not_wait_for_the_host_between_them(tmp_path: Path) -> None:
    """The launch of a graph may return after its first kernels ran: that is no waiting."""
    story = Story().launch(0, 90, 5, call="cudaGraphLaunch")
    (item,) = read(story.kernel("k", 10, 3, 5).kernel("k", 20, 3, 5).write(tmp_path))
    assert item.settings["sent"] == "graph"
    assert "host_wait" not in item.settings


def test_waiting_for_the_host_is_told_between_kernels_of_one_path(tmp_path: Path) -> None:
    """Setting up before a range is not its waiting; a kernel that was queued in time waited for something else."""
    story = Story().launch(0, 1, 1).kernel("k", 5, 5, 1)
    story.add("user_annotation", "loop", 1000, 500)
    story.launch(1010, 5, 2).kernel("k", 1020, 4, 2)  # 1010 us after the one before it, which stood outside
    story.launch(1030, 5, 3).kernel("k", 1037, 4, 3)  # 13 us idle, sent at 1035
    story.launch(1038, 2, 4).kernel("k", 1042, 4, 4)  # queued at 1040, before the device was free at 1041
    story.launch(1050, 5, 5).kernel("k", 1056, 4, 5)  # 10 us idle, sent at 1055
    outside, inside = read(story.write(tmp_path))
    assert (inside.path, len(inside.samples)) == (("loop",), 4)
    assert inside.settings["sent"] == "one by one"
    assert inside.settings["host_wait"] / US == pytest.approx(13 + 0 + 10)
    assert "host_wait" not in outside.settings  # the first on the device: not known, not 0
    assert "at most" in inside.defined["settings.host_wait"]


def test_how_a_kernel_was_sent_is_not_told_without_its_launch(tmp_path: Path) -> None:
    (item,) = read(Story().kernel("k", 0, 5, 1).kernel("k", 20, 5, 2).write(tmp_path))
    assert {"sent", "host_wait"}.isdisjoint(item.settings)


def test_ranges_of_the_device_serve_where_the_host_was_not_recorded(tmp_path: Path) -> None:
    story = (
        Story().add("gpu_user_annotation", "decode", 10, 50, 0).add("gpu_user_annotation", "ProfilerStep#4", 0, 99, 0)
    )
    story.add("gpu_user_annotation", "sample", 30, 40, 0)  # overlaps `decode`, as ranges of a device may
    story.kernel("first", 10, 5).kernel("both", 40, 5).kernel("second", 65, 3).kernel("after", 80, 5)
    found = {item.name: item.path for item in read(story.write(tmp_path))}
    assert found == {"first": ("decode",), "both": ("decode", "sample"), "second": ("sample",), "after": ()}


def test_scalars_tell_attention_apart_but_not_elementwise_ops(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[2, 8], []], "Input type": ["float", "Scalar"]}
    story = Story()
    for place, (name, scalar) in enumerate(
        [("aten::_attention", "True"), ("aten::_attention", "False"), ("aten::mul", "0.1"), ("aten::mul", "0.2")]
    ):
        story.op(name, 10 * place, 5, **shapes, **{"Concrete Inputs": ["", scalar]})
    causal, full, product = read(story.write(tmp_path))
    assert (causal.settings["scalars"], full.settings["scalars"]) == ({1: "True"}, {1: "False"})
    assert "scalars" not in product.settings
    assert product.settings["count"] == 2


def test_tensors_of_a_list_have_shapes_and_no_known_dtype(tmp_path: Path) -> None:
    given = {"Input Dims": [[[8, 64], [4, 64]], [], []], "Input type": ["TensorList", "Scalar", "c10::Float8_e4m3fnuz"]}
    (item,) = read(Story().op("aten::cat", 0, 5, **given).write(tmp_path))
    assert item.settings["shapes"] == [[8, 64], [4, 64], []]
    assert item.settings["dtypes"] == ["unknown", "unknown", "Float8_e4m3fnuz"]


def test_what_took_no_time_is_said_not_measured(tmp_path: Path) -> None:
    (item,) = read(Story().kernel("k", 0, 2).kernel("k", 5, 0).kernel("k", 9, 4).write(tmp_path))
    assert item.samples == pytest.approx((2 * US, 4 * US))
    assert item.notes == ("1 more launches have no measurable time",)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void at::native::vectorized_elementwise_kernel<4, at::native::F>(int)", "vectorized_elementwise_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float, 10>(float*)", "softmax_warp_forward"),
        ("nvjet_hsh_128x256_64x4", "nvjet_hsh_128x256_64x4"),
        ("<odd>", "<odd>"),
    ],
)
def test_short_names_of_kernels(kernel: str, name: str) -> None:
    assert short(kernel) == name


@pytest.mark.parametrize(
    ("kernel", "stated", "name"),
    [
        ("ncclDevKernel_AllGather_RING_LL(x)", None, "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(x)", None, "reduce_scatter"),
        ("ncclDevKernel_SendRecv(x)", None, "p2p"),
        ("ncclDevKernel_SendRecv(x)", "all_to_allv", "all_to_all"),
        ("ncclDevKernel_Generic(x)", "_reduce_scatter_base", "reduce_scatter"),
        ("ncclDevKernel_Generic(x)", None, "collective"),
    ],
)
def test_names_of_collectives(tmp_path: Path, kernel: str, stated: str | None, name: str) -> None:
    args = {} if stated is None else {"Collective name": stated}
    (item,) = read(Story().kernel(kernel, 0, 5, **args).write(tmp_path))
    assert (item.name, item.settings["kind"]) == (name, "collective")


# -- ops of traces without kernels --------------------------------------------------------------------------


def test_own_time_counts_bookkeeping_and_leaves_out_called_ops(tmp_path: Path) -> None:
    story = Story().op("aten::linear", 0, 100).op("aten::t", 5, 10).op("aten::addmm", 20, 70).op("aten::copy_", 30, 20)
    linear, addmm, copy = read(story.op("aten::view", 200, 3).write(tmp_path))[:3]
    # linear keeps its transpose (100 - 70), addmm gives up its copy (70 - 20)
    assert [item.median / US for item in (linear, addmm, copy)] == pytest.approx([30, 50, 20])
    assert (linear.settings["called"], addmm.settings["called"]) == (["aten::addmm"], ["aten::copy_"])
    assert "called" not in copy.settings


@pytest.mark.parametrize("path", [path for path in RECORDED if "cpu" in path.name], ids=lambda path: path.name)
def test_every_microsecond_of_the_recorded_ops_is_counted_once(path: Path) -> None:
    outermost = 0.0
    for spans in load(path).events.lanes.values():
        for span, around in nested(spans, path):
            if span.kind == OP and not any(other.kind == OP for other in around):
                outermost += span.end - span.start
    assert sum(sum(item.samples) for item in read(path)) == pytest.approx(outermost * US, rel=1e-6)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_trace_names_ops_shapes_and_modules(path: Path) -> None:
    """Three steps of two blocks: qkv is 256 x 128 rows of 256 to 768, attention is causal over 4 heads of 64."""
    found = read(path)
    attention = [item for item in found if "attention" in item.name and "backward" not in item.name]
    assert {item.path[:3] for item in attention} == {("forward", "Sequential_0", f"Block_{place}") for place in (0, 1)}
    products = [item for item in found if item.name == "aten::addmm" and item.path[-1:] == ("Linear_0",)]
    assert [768] in products[0].settings["shapes"]
    assert [256, 256] in products[0].settings["shapes"]
    assert all(item.settings["calls"] == 3 for item in products)
    backward = [item for item in found if item.name == "aten::mm" and item.settings.get("pass") == "backward"]
    assert {item.path[-1] for item in backward} == {f"Linear_{place}" for place in range(4)}


def test_the_recorded_cpu_trace_is_there() -> None:
    assert FIXTURES / "trace_cpu.json.gz" in RECORDED


# -- gaps ---------------------------------------------------------------------------------------------------


def test_gaps_of_the_device_and_whose_they_are() -> None:
    (row,) = gaps(HANDMADE)["devices"]
    # From 40 to 1750 us. In step one the device idles 3 x 10 us between queued kernels, in step two 10 + 8 + 9; in both
    # it waits 165, 80 and 70 us for a launch, and 290 us between the steps.
    waited = 2 * (165 + 80 + 70) + 290
    idle = waited + 30 + 27
    assert row["span"] / US == pytest.approx(1750 - 40)
    assert row["idle"] / US == pytest.approx(idle)
    assert row["busy"] / US == pytest.approx(1710 - idle)
    assert row["idle_for_host"] / US == pytest.approx(waited)
    assert row["host_bound"] == pytest.approx(waited / 1710)
    assert row["gaps"] == 6 + 1 + 6
    assert row["largest"] == {"time": pytest.approx(290 * US), "after": "all_reduce", "before": "memcpy HtoD"}
    assert row["kernels"] == 2 * 6
    assert row["launches_per_second"] == pytest.approx(16 / 1710e-6)
    assert row["name"] == "NVIDIA H200"


def test_streams_that_overlap_leave_no_gap(tmp_path: Path) -> None:
    story = Story().kernel("long", 0, 100).kernel("short", 10, 5).kernel("next", 100, 5)
    (row,) = gaps(story.write(tmp_path))["devices"]
    assert (row["gaps"], row["idle"]) == (0, 0)
    assert "host_bound" not in row  # no launch was recorded: not known, not 0


def test_gap_whose_launch_is_not_in_the_trace_is_not_blamed_on_the_host(tmp_path: Path) -> None:
    story = Story().launch(0, 1, 1).kernel("first", 5, 5, 1).kernel("second", 30, 5, 2)
    (row,) = gaps(story.write(tmp_path))["devices"]
    assert row["idle_unexplained"] / US == pytest.approx(20)
    assert row["host_bound"] == 0


def test_a_trace_without_kernels_has_no_gaps() -> None:
    found = gaps(FIXTURES / "trace_cpu.json.gz")
    assert found["devices"] == []
    assert "no device kernels" in found["notes"][0]


# -- the file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_pieces_of_any_size_give_the_same_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int) -> None:
    path = tmp_path / "trace.json"
    document = {"a": 12345, "traceEvents": [{"x": [1.5, "}{"]}, {}, 17, 'é"'], "b": [True, None], "c": -1.5e-3}
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    monkeypatch.setattr(chrome_trace, "PIECE", size)
    assert list(items(path)) == [
        ("a", 12345),
        *(("traceEvents", event) for event in document["traceEvents"]),
        ("b", [True, None]),
        ("c", -1.5e-3),
    ]


def test_a_bare_list_of_events_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(Story().op("aten::mm", 0, 5).events))
    assert [item.name for item in read(path)] == ["aten::mm"]


@given(st.floats(0, 0.999))
def test_a_trace_cut_anywhere_is_refused(share: float) -> None:
    whole = HANDMADE.read_text().rstrip()
    path = HANDMADE.parent / "cut.json"
    text = whole[: int(len(whole) * share)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_trace, "opened", lambda _: _Opened(text))
        with pytest.raises(InputError, match="cut off"):
            read(path)


class _Opened:
    """A text in the place of a file, without a file per example."""

    def __init__(self, text: str) -> None:
        self.text = io.StringIO(text)

    def __enter__(self) -> Any:
        return self.text

    def __exit__(self, *_: object) -> None:
        return None


def test_a_compressed_trace_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(HANDMADE.read_bytes())
    path = tmp_path / "trace.json.gz"
    for share in (0.2, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(InputError, match="cut off"):
            read(path)


@given(st.integers(0, 10**9))
def test_damaged_traces_give_a_message_or_an_answer(seed: int) -> None:
    """Bytes changed at random: an InputError or observations, nothing else."""
    chance = random.Random(seed)
    text = list(HANDMADE.read_text()[:6000] + "]}")
    for _ in range(chance.randint(1, 12)):
        text[chance.randrange(len(text))] = chance.choice('{}[]",:0-e.\\xn ')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_trace, "opened", lambda _: _Opened("".join(text)))
        try:
            found = load(Path("x"))
            seen, rows = observations(found), idle_times(found)["devices"]
        except InputError:
            return
    assert all(item.samples for item in seen)
    assert all(row["idle"] >= 0 for row in rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "begins with 'h'"),
        ('{"traceEvents": []}', "no kernels and no ops"),
        ('{"schemaVersion": 1}', "no kernels and no ops"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1}]}', "has no usable time"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -4}]}', "has no usable time"),
        ('{"traceEvents": [{"ph": "X" "cat"}, {"ph": "X"}, {"ph": "M", "name": "x"}]}', "not JSON after entry 1"),
        ('{"traceEvents": ' + "[" * 100_000, "deeply|not JSON|cut off"),
    ],
)
def test_what_is_no_trace_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read(path)


def test_an_entry_that_is_not_json_is_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name whose quotes the profiler did not escape, among 200 kernels; the text is read in pieces that cut entries in two."""
    kernels = [
        f'{{\n    "ph": "X", "cat": "kernel", "name": "k", "ts": {10 * at}, "dur": 5, "args": {{"stream": 7}}\n  }}'
        for at in range(200)
    ]
    bad = '{\n    "ph": "X", "cat": "cpu_op", "name": "f("tanh")", "ts": 1, "dur": 5, "args": {"a": [{}]}\n  }'
    path = tmp_path / "trace.json"
    monkeypatch.setattr(chrome_trace, "PIECE", 1000)
    for place in (0, 77, 199):
        path.write_text(
            '{"schemaVersion": 1, "traceEvents": [' + ",\n  ".join([*kernels[:place], bad, *kernels[place:]]) + "]}"
        )
        (kernel,) = read(path)
        assert len(kernel.samples) == 200
        assert "1 of 201 entries of the trace are not JSON and were left out" in kernel.notes
        assert "1 of 201 entries" in torch_profiler.timeline(path).notes[0]
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + ",\n  ".join([bad] * 3 + kernels) + "]}")  # 1.5 %
    with pytest.raises(InputError, match="is not JSON after"):
        read(path)


def test_merged_traces_of_several_processes_are_refused(tmp_path: Path) -> None:
    story = Story().launch(0, 1, 7, lane=1).launch(0, 1, 7, lane=2).kernel("k", 5, 5, 7)
    with pytest.raises(InputError, match="2 processes"):
        read(story.write(tmp_path))


def test_formats_are_told_apart() -> None:
    assert recognised(HANDMADE)[0].tool == "torch.profiler"
    assert recognised(FIXTURES / "trace_cpu.json.gz")[0].tool == "torch.profiler"
    assert not torch_profiler.recognises('{"traceEvents": [{"name": "browser"}]}', Path("trace.json"))


def test_memory_stays_small_while_the_trace_grows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the piece being read is held, and nothing of the events that say nothing about a kernel."""
    path, count = tmp_path / "trace.json", 8000
    event = {
        "ph": "X",
        "cat": "python_function",
        "name": "f",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "dur": 1,
        "args": {"x": "y" * 4000},
    }
    text = ",".join([json.dumps(event)] * count + [json.dumps(Story().kernel("k", 0, 1).events[0])])
    path.write_text('{"traceEvents": [' + text + "]}")
    assert path.stat().st_size > count * 4000
    monkeypatch.setattr(chrome_trace, "PIECE", 1 << 16)
    tracemalloc.start()
    load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < count * 4000 / 8


# -- live ---------------------------------------------------------------------------------------------------


def test_live_on_this_machine() -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Softmax(-1), torch.nn.LayerNorm(32))
    with observe("torch") as seen:
        for _ in range(2):
            model(torch.ones(8, 64))
        with pytest.raises(InputError, match="still running"):
            _ = seen.observations
    found = {item.name: item for item in seen}
    product = found["aten::addmm"]
    assert product.settings["shapes"] == [[32], [8, 64], [64, 32]]
    assert product.settings["dtypes"] == ["fp32"] * 3
    assert product.settings["calls"] == 2
    assert product.path == ("Sequential_0", "Linear_0")
    assert found["aten::_softmax"].path == ("Sequential_0", "Softmax_0")
    assert found["aten::native_layer_norm"].path == ("Sequential_0", "LayerNorm_0")
    assert product.version == torch.__version__
    assert seen.gaps["devices"] == []


def test_live_without_shapes_and_modules() -> None:
    import torch

    with observe("torch", shapes=False, modules=False) as seen:
        torch.nn.Linear(4, 4)(torch.ones(2, 4))
    found = {item.name: item for item in seen}
    assert found["aten::addmm"].path == ()
    assert "shapes" not in found["aten::addmm"].settings


def test_live_is_read_once_and_after_the_block() -> None:
    seen = observe("torch")
    with pytest.raises(InputError, match="not begun"):
        _ = seen.gaps
    with pytest.raises(ZeroDivisionError), seen:
        raise ZeroDivisionError
    with pytest.raises(InputError, match="ended in an error"):
        _ = seen.observations
    with pytest.raises(InputError, match="has been used"):
        seen.__enter__()


def test_live_inside_another_profiler_is_refused() -> None:
    import torch

    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(InputError, match="already running"),
        observe("torch"),
    ):
        pass


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("ncu", "ridgeline profile --with ncu"),
        ("jax", "jax.profiler.trace"),
        ("nsys", "unknown tool 'nsys'.*ridgeline profile"),
    ],
)
def test_tools_that_do_not_observe_a_block(tool: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        observe(tool)


def test_live_without_torch_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"ridgeline\[torch\]"):
        observe("torch")
