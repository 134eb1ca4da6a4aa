"""The JAX profiler's plain trace: a device's time once, with what the compiler said about it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ridgeline.core.errors import InputError
from ridgeline.profilers import jax_profiler, torch_profiler
from ridgeline.profilers.jax_profiler import read
from ridgeline.profilers.load import load as recognised

FIXTURES = Path(__file__).parents[1] / "fixtures" / "jax"
HANDMADE = FIXTURES / "handmade_gpu.trace.json"
RECORDED = FIXTURES / "trace_cpu.trace.json.gz"
US = 1e-6


def written(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "host.trace.json"
    head = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    path.write_text(json.dumps({**head, "traceEvents": [*events, {}]}))
    return path


def named(pid: int, name: str, tid: int | None = None) -> dict[str, Any]:
    what = {"name": "process_name"} if tid is None else {"name": "thread_name", "tid": tid}
    return {"ph": "M", "pid": pid, **what, "args": {"name": name}}


def event(tid: int, name: str, start: float, length: float, pid: int = 2, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "ts": start, "dur": length, "name": name, "args": args}


def test_kernels_of_the_streams_and_nothing_twice() -> None:
    copy, product, softmax = read(HANDMADE)
    # two calls: 12, 60 and 60 + 1, 30 us; modules, XLA ops and name scopes repeat the same time
    assert copy.samples == pytest.approx((12 * US, 12 * US))
    assert product.samples == pytest.approx((60 * US, 61 * US))
    assert softmax.samples == pytest.approx((30 * US, 30 * US))
    assert product.name == "gemm_fusion_dot.1"
    assert product.kernel == "gemm_fusion_dot_1_kernel"
    assert product.path == ("jit(block)", "jit(main)", "mlp")
    assert product.settings["op"] == "dot_general"
    assert copy.settings["kind"] == "memcpy"
    assert product.conditions["device"] == "/device:GPU:0"


def test_launch_settings_come_from_the_kernel_details() -> None:
    product = read(HANDMADE)[1]
    wanted = {"registers": 128, "grid": (8, 4, 1), "block": (128, 1, 1), "shared_memory": 0 + 49152}
    assert {key: product.settings[key] for key in wanted} == wanted
    assert product.settings["occupancy_estimate"] == 0.25


def test_flops_and_bytes_are_the_compilers_and_no_counts() -> None:
    _, product, softmax = read(HANDMADE)
    # 64 x 256 times 256 x 512 in fp32: 2 m n k flops
    assert product.settings["flops"] == 2 * 64 * 256 * 512
    assert product.settings["bytes_accessed"] == 655360
    assert not product.flops
    assert not product.bytes
    assert "compiler's estimate" in product.defined["settings.flops"]
    assert "settings.flops" not in softmax.defined


def test_recorded_ops_of_a_cpu() -> None:
    found = read(RECORDED)
    assert all(len(item.samples) == 3 for item in found)
    assert {item.settings["hlo_module"] for item in found} == {"jit_block"}
    assert {item.conditions["device"] for item in found} == {"cpu"}
    assert any("fusion" in item.name for item in found)


def test_xla_ops_serve_where_there_are_no_streams_and_loops_give_up_their_body(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        named(2, "/device:TPU:0"),
        named(2, "XLA Modules", 1),
        named(2, "XLA Ops", 2),
        event(1, "jit_f", 0, 100),
        event(2, "while.1", 0, 100, hlo_op="while.1"),
        event(2, "fusion.3", 10, 20, hlo_op="fusion.3", model_flops="8e6"),
        event(2, "fusion.3", 40, 20, hlo_op="fusion.3", model_flops="8e6"),
    )
    loop, body = read(path)
    assert loop.samples == pytest.approx((60 * US,))  # 100 less twice 20
    assert body.samples == pytest.approx((20 * US, 20 * US))
    assert body.settings["model_flops"] == 8e6
    assert body.kernel == ""


def test_kernels_of_a_stream_that_overlap_keep_their_time(tmp_path: Path) -> None:
    """A kernel may begin before the one it follows has ended; neither is part of the other."""
    streams = named(2, "/device:GPU:0"), named(2, "Stream #14(Compute)", 1)
    first, second = read(written(tmp_path, *streams, event(1, "a", 0, 50), event(1, "b", 40, 10)))
    assert (first.samples, second.samples) == (pytest.approx((50 * US,)), pytest.approx((10 * US,)))


def test_the_binary_profile_names_the_file_to_give(tmp_path: Path) -> None:
    binary = tmp_path / "host.xplane.pb"
    binary.write_bytes(b"\x0a\x07binary")
    with pytest.raises(InputError, match=r"reads the \.trace\.json\.gz that JAX writes next to it"):
        recognised(binary)
    beside = tmp_path / "host.trace.json.gz"
    beside.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(InputError, match=r"host\.trace\.json\.gz', which is next to it"):
        recognised(binary)


def test_formats_are_told_apart() -> None:
    assert recognised(HANDMADE)[0].tool == "jax.profiler"
    assert recognised(RECORDED)[0].tool == "jax.profiler"
    head = HANDMADE.read_text()
    assert not torch_profiler.recognises(head, HANDMADE)
    torch = HANDMADE.parents[1] / "torch" / "handmade_gpu.json"
    assert not jax_profiler.recognises(torch.read_text(), torch)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            [named(701, "/host:CPU"), event(1, "PjitFunction(f)", 0, 5, pid=701)],
            "no XLA ops and no kernels, only 1 events",
        ),
        ([named(2, "/device:GPU:0"), event(1, "k", 0, -5)], "has no usable time"),
    ],
)
def test_traces_without_ops_are_told(tmp_path: Path, events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(written(tmp_path, *events))


def test_a_trace_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = HANDMADE.read_text()
    path = tmp_path / "host.trace.json"
    for length in range(0, len(whole) - 1, 97):
        path.write_text(whole[:length])
        with pytest.raises(InputError, match="cut off"):
            read(path)


def test_a_trace_at_the_profilers_limit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(not item.notes for item in read(HANDMADE))
    monkeypatch.setattr(jax_profiler, "MAX_EVENTS", 10)
    assert all("may be truncated" in item.notes[0] for item in read(HANDMADE))
