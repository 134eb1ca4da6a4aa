"""A traced program run call by call: sums of kernel times, the host's dispatch, the cache, the memory it needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError
from ridgeline.core.figure import Figure
from ridgeline.core.timeline import BACKWARD, Tensor
from ridgeline.core.trace import FREE, HOLDS, INPUT, LIBRARY, PARAMETER, VIEW, Trace
from ridgeline.machines.defaults import defaults
from ridgeline.prediction.host import launch_latency
from ridgeline.prediction.predict import Prediction
from ridgeline.prediction.queue import DEVICE_BOUND, HOST_BOUND
from ridgeline.prediction.traced import predict_trace
from ridgeline.prediction.traced.cache import last_level_cache
from ridgeline.prediction.traced.dispatch import BACKWARD_CALL, call_cost, call_kind
from ridgeline.prediction.traced.memory import memory
from traces import Builder

H200 = rl.machine("h200-sxm")
LARGE, SMALL = (16384, 16384), (64, 64)  # 512 MB in bf16, far beyond any cache; 8 KB


def chain(shape: tuple[int, ...], calls: int = 3, times: float = 1.0) -> Trace:
    """relu after relu, each on what the one before wrote."""
    b = Builder()
    b.buffer("x0", shape, INPUT)
    for place in range(calls):
        b.buffer(f"x{place + 1}", shape)
        b.call("aten::relu", [f"x{place}"], [f"x{place + 1}"], times=times)
    return b.trace()


def mlp(rows: int, width: int, layers: int = 4) -> Trace:
    b = Builder()
    b.buffer("x0", (rows, width), INPUT)
    for place in range(layers):
        b.buffer(f"w{place}", (width, width), PARAMETER)
        b.buffer(f"h{place}", (rows, width))
        b.buffer(f"x{place + 1}", (rows, width))
        b.call("aten::mm", [f"x{place}", f"w{place}"], [f"h{place}"], sort=LIBRARY, module=f"layers.{place}")
        b.call("aten::relu", [f"h{place}"], [f"x{place + 1}"], module=f"layers.{place}")
    return b.trace()


def test_device_time_is_the_sum_over_the_calls_where_nothing_is_cached() -> None:
    trace = chain(LARGE, calls=3, times=2.0)
    program = rl.predict(trace, H200)
    alone = rl.predict(trace.program(), H200)
    assert isinstance(alone, Prediction)
    assert program.time == pytest.approx(float(alone.time))
    assert program.time == pytest.approx(6 * float(rl.predict(rl.ops.relu(n=LARGE[0] ** 2), H200).time))
    assert program.floor == pytest.approx(float(alone.floor))
    assert program.flops == trace.flops == 6 * LARGE[0] ** 2
    assert program.kernels == 6
    assert program.low < program.time < program.high


def test_equal_calls_are_one_row_with_their_count() -> None:
    program = predict_trace(mlp(64, 128), H200)
    assert [(item.op, item.module, item.count) for item in program.ops[:2]] == [
        ("aten::mm", "layers.0", 1.0),
        ("aten::relu", "layers.0", 1.0),
    ]
    row = program.ops[0]
    assert row.flops == 2 * 64 * 128 * 128
    assert row.name.startswith("gemm m=64 n=128 k=128")
    assert predict_trace(chain(SMALL, 5), H200).ops[0].count == 5


def test_small_calls_are_host_bound_and_large_ones_device_bound() -> None:
    small, large = predict_trace(chain(SMALL, 50), H200), predict_trace(chain(LARGE, 50), H200)
    assert (small.regime, large.regime) == (HOST_BOUND, DEVICE_BOUND)
    assert small.wall == pytest.approx(small.host, rel=0.05)
    assert small.time < small.host
    assert large.wall == pytest.approx(large.time, rel=0.05)
    for program in (small, large):
        assert program.wall >= max(program.time, program.host) * (1 - 1e-9)


def test_a_graph_runs_the_same_kernels_without_dispatch() -> None:
    trace = chain(SMALL, 50)
    eager, graph = predict_trace(trace, H200), predict_trace(trace, H200, mode="graph")
    assert graph.time == eager.time
    assert graph.wall < eager.wall / 2
    assert graph.host < eager.host / 20
    assert graph.regime == DEVICE_BOUND


def test_calls_that_were_measured_on_the_host_go_first() -> None:
    usual, trace = defaults("host_call"), chain(SMALL, 20)
    slow = replace(H200, eager_call=Figure("s", measured=2 * usual["eager_call"], spread=0.1))
    usual_host, slow_host = predict_trace(trace, H200), predict_trace(trace, slow)
    assert slow_host.host == pytest.approx(2 * usual_host.host)
    # and their interval is that of the measurement
    widths = [program.wall_high / program.wall for program in (usual_host, slow_host)]
    assert widths[1] - 1 < (widths[0] - 1) / 2
    # a backward pass runs on another core: it keeps the ratio to the forward pass until it was measured too
    assert call_cost(slow, BACKWARD_CALL) == pytest.approx(2 * usual["backward_call"])
    both = replace(slow, backward_call=Figure("s", measured=1e-6))
    assert call_cost(both, BACKWARD_CALL) == 1e-6


def test_modules_cost_host_time_before_their_first_call() -> None:
    trace = chain(SMALL, 3)
    entered = np.array([2, 0, 1])
    plain, with_modules = (predict_trace(each, H200) for each in (trace, replace(trace, entered=entered)))
    module = defaults("call_factor")["module"] * defaults("host_call")["eager_call"]
    assert (with_modules.queue.cost - plain.queue.cost).tolist() == pytest.approx((entered * module).tolist())
    assert predict_trace(replace(trace, entered=entered), H200, mode="graph").host == pytest.approx(
        predict_trace(trace, H200, mode="graph").host
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::add_", "operator"),
        ("aten::addmm", "product"),
        ("aten::bmm", "product"),
        ("aten::native_layer_norm_backward", "norm"),
        ("aten::cudnn_batch_norm", "batch_norm"),
        ("aten::_scaled_dot_product_cudnn_attention", "attention"),
        ("aten::convolution_backward", "convolution"),
        ("mylib::mystery", "operator"),
    ],
)
def test_calls_have_the_cost_of_their_kind(name: str, kind: str) -> None:
    assert call_kind(name) == kind
    assert defaults("call_factor")[kind] > defaults("call_factor")["view"]


def test_launches_of_recurrent_layers_cost_the_host_more_than_those_of_other_calls() -> None:
    """A layer of 40 steps is 81 launches: a product over all steps, then a product and a cell for each."""
    weights = (Tensor((256, 64), "bf16"), Tensor((256, 64), "bf16"))
    b = Builder()
    b.buffer("x", (40, 8, 64), INPUT)
    b.buffer("y", (40, 8, 64))
    b.call("aten::_cudnn_rnn", ["x"], ["y"], sort=LIBRARY, further=(weights, 2, None, None, None, 2, 64, 0, 1, False))
    program = predict_trace(b.trace(), H200)
    assert program.kernels == 81
    kinds = defaults("call_factor")
    expected = kinds["operator"] + 2 * kinds["listed"] + 80 * kinds["recurrent_launch"]
    assert program.host == pytest.approx(expected * defaults("host_call")["eager_call"])
    assert kinds["recurrent_launch"] > kinds["launch"]


def test_views_cost_host_time_and_no_kernel() -> None:
    b = Builder()
    b.buffer("x", LARGE, INPUT)
    b.buffer("y", LARGE)
    b.call("aten::relu", ["x"], ["y"])
    without = predict_trace(b.trace(), H200)
    b.call("aten::t", ["y"], ["y"], sort=VIEW)
    assert list(b.ops.values())[1].kind == FREE
    program = predict_trace(b.trace(), H200)
    assert program.kernels == without.kernels == 1
    assert program.time == without.time
    assert without.host < program.host < 2 * without.host


def test_calls_under_autograd_cost_more_on_the_host() -> None:
    plain = predict_trace(mlp(64, 64), H200)
    b = Builder()
    b.buffer("x", SMALL, INPUT)
    b.buffer("y", SMALL)
    b.call("aten::relu", ["x"], ["y"])
    forward = predict_trace(b.trace(), H200).host
    b.call("aten::threshold_backward", ["y", "x"], ["x"], phase=BACKWARD, further=(0,))
    both = predict_trace(b.trace(), H200)
    assert both.host > 2 * forward
    kinds = defaults("call_factor")
    assert plain.host == pytest.approx(4 * (1 + kinds["product"] / kinds["operator"]) * forward)


def test_what_is_not_counted_is_listed_and_left_out_of_the_times() -> None:
    b = Builder()
    b.buffer("x", LARGE, INPUT)
    b.buffer("y", LARGE)
    b.call("aten::relu", ["x"], ["y"])
    before = predict_trace(b.trace(), H200).time
    b.call("mylib::mystery", ["y"], ["x"], sort=LIBRARY, times=3.0)
    program = predict_trace(b.trace(), H200)
    assert program.time == before
    (row,) = program.uncounted
    assert (row.op, row.count, row.bytes) == ("mylib::mystery", 3.0, 3 * 2 * b.size("x"))
    assert "mylib::mystery x3" in program.notes[0]


# -- the cache -----------------------------------------------------------------------------------------------


def test_a_small_tensor_is_read_from_the_cache_and_a_large_one_is_not() -> None:
    cache = last_level_cache(H200)
    assert cache is not None
    assert cache.room < 60e6
    large, medium = predict_trace(chain(LARGE), H200), predict_trace(chain((2048, 2048)), H200)
    assert large.cached.sum() == 0
    assert medium.cached.tolist() == [0.0, 2.0 * 2048**2, 2.0 * 2048**2]
    assert medium.run_time[1] < medium.run_time[0]
    assert any("L2" in note for note in medium.notes)
    assert not any("L2" in note for note in large.notes)


def test_what_runs_in_between_pushes_a_tensor_out_of_the_cache() -> None:
    b = Builder()
    b.buffer("x", (2048, 2048), INPUT)
    b.buffer("y", (2048, 2048))
    b.buffer("z", (2048, 2048))
    b.buffer("other", (8192, 8192), INPUT)
    b.buffer("result", (8192, 8192))
    b.call("aten::relu", ["x"], ["y"])
    b.call("aten::relu", ["other"], ["result"])
    b.call("aten::relu", ["y"], ["z"])
    assert predict_trace(b.trace(), H200).cached.sum() == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 14), st.integers(1, 6), st.sampled_from(["h200-sxm", "a100-sxm-80gb", "l4"]))
def test_the_cache_never_slows_and_never_beats_its_own_bandwidth(log_rows: int, calls: int, name: str) -> None:
    machine = rl.machine(name)
    trace = chain((2**log_rows, 1024), calls)
    program = predict_trace(trace, machine)
    cache = last_level_cache(machine)
    assert cache is not None
    cold = float(rl.predict(rl.ops.relu(n=2**log_rows * 1024), machine).time)
    read = 2.0 * 2**log_rows * 1024
    fastest = 2 * read / (machine.bandwidth().value * cache.speedup)
    for time in program.run_time.tolist():
        assert time <= cold * (1 + 1e-9)
        assert time >= min(fastest, cold) * (1 - 1e-9)
        assert time >= 0.7 * min(launch_latency(machine), cold)


# -- memory --------------------------------------------------------------------------------------------------


def test_memory_over_time_is_the_sum_of_the_buffers_that_are_needed() -> None:
    trace = mlp(512, 256, layers=5)
    curve = memory(trace).curve
    for call in range(len(trace)):
        for kind, name in enumerate(HOLDS):
            held = sum(
                float(trace.buffers.size[place])
                for place in range(len(trace.buffers))
                if trace.buffers.holds[place] == kind and trace.buffers.born[place] <= call < trace.buffers.dies[place]
            )
            assert curve[call, kind] == held, (call, name)
    program = predict_trace(trace, H200)
    weights, tensor = 5 * 256 * 256 * 2, 512 * 256 * 2
    assert program.memory.at_peak["parameter"] == weights
    assert program.peak_memory == weights + tensor + 2 * tensor  # the input, and two of the activations at a time
    assert program.fits is True


def test_the_shown_curve_keeps_the_peak() -> None:
    whole = memory(mlp(64, 64, layers=400))
    calls, curve = whole.steps(50)
    assert len(calls) == 50
    assert float(curve.sum(axis=1).max()) == whole.peak


def test_a_program_that_does_not_fit_is_said() -> None:
    b = Builder()
    b.buffer("w", (1 << 17, 1 << 16), PARAMETER)
    b.buffer("y", (1 << 17, 1 << 16))
    b.call("aten::relu", ["w"], ["y"])
    l4, h200 = predict_trace(b.trace(), "l4"), predict_trace(b.trace(), H200)
    assert (l4.fits, h200.fits) == (False, True)
    assert l4.notes[0].startswith("does not fit: needs 34.4 GB, l4 has 2")
    assert not any("fit" in note for note in h200.notes)


# -- documents and bad input -----------------------------------------------------------------------------------


def test_the_document_has_the_fields_that_others_rely_on() -> None:
    document = to_document(predict_trace(mlp(256, 512), H200))
    assert {"flops", "bytes", "floor_us", "time_us", "host_us", "wall_us", "kernels", "peak_memory"} <= set(
        document["totals"]
    )
    row = document["ops"][0]
    assert {"name", "module", "op", "count", "flops", "bytes", "bound", "floor_us", "time_us"} <= set(row)
    assert sum(item["time_us"] for item in document["ops"]) == pytest.approx(document["totals"]["time_us"])
    assert document["uncounted"] == []
    assert sum(document["bound_shares"].values()) == pytest.approx(1.0)


def test_mfu_is_flops_over_peak_and_wall() -> None:
    program = predict_trace(mlp(8192, 8192), H200)
    matrix = 4 * 2 * 8192**3
    assert program.mfu == pytest.approx(matrix / H200.peak("tensor.bf16").value / program.wall)


def test_the_schedule_runs_kernels_one_after_the_other() -> None:
    program = predict_trace(mlp(256, 512), H200)
    start, end = program.schedule.start, program.schedule.end
    assert np.all(start[1:] >= end[:-1] - 1e-12)
    assert end[-1] == pytest.approx(program.wall, abs=1e-5)


def test_bad_input_says_what_to_do() -> None:
    trace = chain(SMALL)
    with pytest.raises(InputError, match=r"eager, graph, fused|eager"):
        rl.predict(trace, H200, mode="compiled")
    with pytest.raises(InputError, match="ceilings"):
        rl.predict(trace, H200, efficiency=0.5)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="traced programs"):
        rl.predict(rl.ops.relu(n=8), H200, mode="graph")  # type: ignore[call-overload]


def test_a_program_on_a_cpu_takes_its_device_time() -> None:
    program = predict_trace(chain(LARGE), "xeon-8480plus")
    assert program.wall == pytest.approx(program.time)
    assert program.host == 0


def test_it_shows_itself_with_the_answer_first() -> None:
    text = repr(predict_trace(mlp(4096, 4096), H200))
    first = text.splitlines()[0]
    assert first.startswith("on h200-sxm, eager: ")
    assert "device-bound · MFU" in first
    assert "peak memory" in text


def test_the_wall_time_has_an_interval_for_the_host_and_the_kernels() -> None:
    small, large = predict_trace(chain(SMALL, 50), H200), predict_trace(chain(LARGE, 50), H200)
    for program in (small, large):
        assert program.wall_low < program.wall < program.wall_high
    assert small.wall_high / small.wall > 1.3  # hosts differ more
    assert large.wall_high / large.wall < 1.2  # than kernels do
