"""Commands that look up and compare: machines, ops, glossary, critical batch, formats, charts, tables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from commands import answer, run

from ridgeline.machines import write as save
from ridgeline.machines.load import load


def test_the_card_names_clock_bus_and_generation_of_the_memory() -> None:
    card = run("machines", "h100-sxm").stdout
    assert "2.62 GHz x 5120 bit x 2 transfers / 8" in card
    assert "hbm: HBM3; " in card


def test_machines_list_and_card() -> None:
    rows = answer("machines")
    assert len(rows) >= 60
    assert {"name", "vendor", "kind", "peak_bf16", "bandwidth"} <= set(rows[0])
    card = answer("machines", "h200")
    assert card["name"] == "h200-sxm"
    assert {"stated", "derived", "measured", "source"} <= set(card["peaks"]["tensor.bf16"])
    assert card["levels"][-1]["bandwidth"]["stated"] == 4.8e12
    assert {"name", "per_direction", "source"} <= set(card["links"][0])
    assert card["tdp"] == 700
    text = run("machines", "h200").output
    assert "tensor-sparse.fp8" in text
    assert "sources" in text


def test_a_short_form_says_which_machine_it_means() -> None:
    for words in (("machines", "h100"), ("compare", "h100", "a100-sxm-80gb"), ("chart", "peaks", "--on", "h100")):
        result = run(*words)
        assert result.exit_code == 0
        assert result.stderr == "h100: using h100-sxm\n"
    assert run("machines", "h100-sxm").stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "gemm", "m=8", "n=8", "k=8"),
        ("precisions", "gemm", "m=8", "n=8", "k=8"),
        ("whatif", "gemm", "m=8", "n=8", "k=8", "--do", "batch=8"),
        ("critical-batch", "4096", "4096"),
        ("chart", "roofline"),
        ("table", "peaks"),
    ],
    ids=lambda words: words[0],
)
def test_the_measured_machine_is_the_default(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "run `ridgeline measure` once" in run(*words).stderr
    from ridgeline.machines import files as by_name

    machine = replace(load("l4"), name="here", file="")
    by_name.saved_file().parent.mkdir(parents=True)
    by_name.saved_file().write_text(save.text(machine), encoding="utf-8")
    monkeypatch.setattr("ridgeline.machines.detect.local.here", lambda which=None: machine)
    result = run(*words)
    assert result.exit_code == 0, result.output
    other = run(*words, "--on", "l4")
    assert result.stdout == re.sub(r"\bl4\b", "here", other.stdout)
    # of another machine, what was saved is no default
    monkeypatch.setattr("ridgeline.machines.detect.local.here", lambda which=None: replace(machine, title="another"))
    assert "run `ridgeline measure` once" in run(*words).stderr


def test_a_machine_shows_what_was_reached_of_its_peaks_and_under_which_conditions() -> None:
    text = run("machines", "h200-sxm").output
    assert re.search(r"tensor\.bf16 +989 TFLOP/s +989 TFLOP/s +834 TFLOP/s +84\.3 %", text)
    assert re.search(r"driver +580\.159\.04", text)
    assert "measured / limit" not in run("machines", "h100-sxm").output, "nothing was measured there"


def test_growth_is_between_figures_of_one_kind() -> None:
    """The H200 was measured, the H100 was not: growth is by their datasheets, each floor by the best ceilings there are."""
    case = ["--op", "gemm m=4096 n=4096 k=4096"]
    rows = answer("compare", "h100-sxm", "h200-sxm", *case)
    assert rows[1]["compute_growth"] == pytest.approx(1.0)
    assert rows[1]["bandwidth_growth"] == pytest.approx(4.8 / 3.35)
    assert rows[1]["floor_us"] > rows[0]["floor_us"]
    stated = answer("compare", "h100-sxm", "h200-sxm", *case, "--ceilings", "stated")
    assert stated[1]["floor_us"] == pytest.approx(rows[0]["floor_us"])
    alone = answer("compare", "h200-sxm")[0]
    assert alone["peak"] == rows[1]["peak"] < 989.4e12
    listed = {row["name"]: row for row in answer("machines")}
    assert (listed["h200-sxm"]["peak_bf16"], listed["h200-sxm"]["bandwidth"]) == (989.4e12, 4.8e12)


def test_compare() -> None:
    rows = answer("compare", "a100-sxm-80gb", "h100-sxm", "b200", "--op", "gemm m=1 n=4096 k=4096")
    assert [row["gains"] for row in rows] == [None, "prefill", "decode, slightly"]
    assert rows[1]["speedup"] > 1
    left_out = run("compare", "h100-sxm", "t4").output
    assert "t4 left out" in left_out


def test_compare_takes_the_format_of_the_op() -> None:
    """A T4 does no bf16: it was left out of a comparison of an op in fp16."""
    words = ("compare", "t4", "h200-sxm", "--op")
    rows = answer(*words, "gemm m=4096 n=4096 k=4096 dtype=fp16")
    assert [row["engine"] for row in rows] == ["tensor.fp16", "tensor.fp16"]
    assert rows == answer(*words, "gemm m=4096 n=4096 k=4096", "--dtype", "fp16")
    text = run(*words, "gemm m=4096 n=4096 k=4096 dtype=fp16").output
    assert "gemm m=4096 n=4096 k=4096 fp16, ceilings: " in text
    assert "bf16" not in text


@pytest.mark.parametrize(
    ("case", "dtype"),
    [("stream_triad n=100000000", "fp64"), ("adamw n=100000000", "fp32"), ("cast n=100000000", "fp32")],
)
def test_compare_asks_what_predict_asks(case: str, dtype: str) -> None:
    """Ops whose usual format is another were compared in bf16: a triad took 136 us, a quarter of what `predict` gives."""
    text = run("compare", "h200-sxm", "h100-sxm", "--op", case).output
    assert f"{case} {dtype}, ceilings: " in text
    rows = answer("compare", "h200-sxm", "h100-sxm", "--op", case)
    for row in rows:
        predicted = answer("predict", *case.split(), "--on", row["machine"])
        assert predicted["dtype"] == dtype
        assert {key: row[key] for key in ("time_us", "floor_us", "bound")} == {
            key: predicted[key] for key in ("time_us", "floor_us", "bound")
        }
        assert row["engine"].endswith(f".{dtype}")
    assert answer("compare", "h200-sxm", "--op", case, "--dtype", "bf16")[0]["time_us"] != rows[0]["time_us"]


def test_compare_leaves_out_no_machine_that_predict_answers_for() -> None:
    """A top-k takes no peak; grace, whose fp32 rate nobody states, was left out of it."""
    words = ("compare", "h100-sxm", "grace", "--ceilings", "stated", "--op")
    rows = answer(*words, "topk rows=1024 cols=32000 k=50 dtype=fp32")
    assert [row["machine"] for row in rows] == ["h100-sxm", "grace"]
    assert (rows[1]["engine"], rows[1]["peak"], rows[1]["ridge"], rows[1]["compute_growth"]) == (None,) * 4
    assert rows[1]["bandwidth_growth"] == pytest.approx(512 / 3350)
    left_out = run(*words, "gemm m=64 n=64 k=64 dtype=fp32").output
    assert "grace left out: grace has no stated figure for vector.fp32; it has derived." in left_out


def test_compare_says_which_times_include_quantizing() -> None:
    """An H100 was 1.5x slower than an H200 in fp8: its timings are of layers that quantize their input."""
    case = ("--op", "gemm m=4096 n=4096 k=4096 dtype=fp8")
    text = run("compare", "h200-sxm", "h100-sxm", "b200-sxm", *case).output
    note = r"h100-sxm and b200-sxm: the timings include quantizing .*, which takes \S+ us and \S+ us; the others do not"
    assert re.search(note, text)
    pair = run("compare", "h200-sxm", "h100-sxm", *case).output.splitlines()[0]
    assert pair.endswith("; the time of h100-sxm includes quantizing the activations")
    both = run("compare", "b200-sxm", "h100-sxm", *case).output
    assert "; the time of" not in both
    assert "the others" not in both
    assert "quantizing" not in run("compare", "h200-sxm", "h100-sxm", "--op", "gemm m=4096 n=4096 k=4096").output


def test_machines_that_differ_by_nothing_are_equally_fast() -> None:
    """171 and 172 us, with the same stated peak, were 1x faster."""
    case = ("--op", "gemm m=4096 n=4096 k=4096", "--ceilings", "stated")
    line = run("compare", "h200-sxm", "h100-sxm", *case).output.splitlines()[0]
    assert line.startswith("h100-sxm and h200-sxm are equally fast on this op: ")
    assert line.endswith(", both compute-bound")
    faster = run("compare", "a100-sxm-80gb", "h100-sxm", *case).output.splitlines()[0]
    assert re.match(r"h100-sxm is [1-9.]+x faster than a100-sxm-80gb on this op: ", faster)


def test_precisions_say_which_times_include_quantizing() -> None:
    """int8 won over fp8 and fp4, whose times include a pass that those of int8 do not."""
    words = ("precisions", "linear", "batch=16", "in_features=4096", "out_features=14336", "--on", "b200-sxm")
    text = run(*words).output
    named = "fp8_e4m3, mxfp8, mxfp6, mxfp4 and nvfp4"
    assert re.match(
        r"fastest in int8: .* faster than bf16 \(\S+ us\), without quantizing the activations, which ", text
    )
    assert f"which the times of {named} include\n" in text
    assert f"{named}: the timings include quantizing the activations from 16 bits; the others do not include it" in text
    assert "quantizing" not in run(*words, "--dtypes", "fp32,bf16,int8").output


def test_precisions_judge_attention_by_the_engine_of_its_products() -> None:
    """Softmax takes the vector units longer than products in four bits take the tensor cores: rows had the peak of the former."""
    rows = answer(
        "precisions", "attention", "b=1", "h=32", "s=4096", "d=128", "--on", "b200-sxm", "--dtypes", "fp8,nvfp4"
    )
    assert [row["engine"] for row in rows] == ["tensor.fp8", "tensor.nvfp4"]
    assert all(row["attainable"] < row["peak"] for row in rows)
    assert rows[1]["ridge"] == pytest.approx(2 * rows[0]["ridge"])


def test_ops_list_and_one() -> None:
    assert "attention" in run("ops").output
    text = run("ops", "conv2d").output
    assert "2 batch c_out ho wo (c_in/groups) kernel^2" in text
    assert answer("ops", "gemm")["parameters"][0] == {
        "name": "m",
        "kind": "Size",
        "choices": [],
        "required": True,
        "default": None,
    }


@pytest.mark.parametrize(("sizes", "batch"), [(("4096", "4096"), 165), (("768", "3072"), 202), (("256", "256"), None)])
def test_critical_batch(sizes: tuple[str, str], batch: int | None) -> None:
    row = answer("critical-batch", *sizes, "--ridge", "152", "--dtype", "fp16")
    assert row["critical_batch"] == batch
    assert row["never"] is (batch is None)
    if batch is None:
        assert "never" in run("critical-batch", *sizes, "--ridge", "152").output


@pytest.mark.parametrize("machine", ["h200-sxm", "h100-sxm", "a100-sxm-80gb", "mi300x", "xeon-8480plus"])
@pytest.mark.parametrize("weights", [None, "int4"])
def test_critical_batch_is_where_predict_turns(machine: str, weights: str | None) -> None:
    """By formula from the ridge there, by halving the range here; the access mix of the layer itself on both sides."""
    more = ("--weights", weights) if weights else ()
    critical = answer("critical-batch", "4096", "14336", "--on", machine, *more)
    layer = ("linear", "batch=1", "in_features=4096", "out_features=14336")
    text = run("predict", *layer, "--on", machine, *more).output
    assert f"compute-bound at batch >= {critical['critical_batch']}\n" in text


def test_precisions() -> None:
    rows = {
        row["dtype"]: row
        for row in answer(
            "precisions", "linear", "batch=1", "in_features=4096", "out_features=4096", "--on", "a100-sxm-80gb"
        )
    }
    assert rows["int4"]["ridge"] == pytest.approx(612.1, rel=1e-3)
    assert list(rows) == ["fp64", "fp32", "tf32", "bf16", "fp16", "int8", "int4", "int1"]
    some = answer("precisions", "gemm", "m=64", "n=64", "k=64", "--on", "h100-sxm", "--dtypes", "fp8,bf16")
    assert [row["dtype"] for row in some] == ["fp8_e4m3", "bf16"]


@pytest.mark.parametrize("name", ["common", "blas", "typical", "batches", "peaks", "tiling", "regimes", "kernels"])
@pytest.mark.parametrize("machine", ["a100-sxm-80gb", "h200-sxm"])
def test_named_tables(name: str, machine: str) -> None:
    document = answer("table", name, "--on", machine)
    assert document["rows"]


def test_tiles_have_traffic_bound_and_rate() -> None:
    """4096^3 in fp32 on an A100: without reuse two words read per multiply-add and one written per result."""
    rows = answer("table", "tiling", "--on", "a100-sxm-80gb", "--dtype", "fp32")["rows"]
    none, most = rows[0], rows[-1]
    assert none["traffic"] == pytest.approx(4 * (2 * 4096**3 + 4096**2))
    assert (none["bound"], none["attainable"]) == ("memory", pytest.approx(0.25 * 2.039e12, rel=1e-3))
    assert (most["bound"], most["attainable"]) == ("compute", 19.5e12)
    assert rows[1]["bandwidth"] == load("a100-sxm-80gb").level("l1").bandwidth.value()


@pytest.mark.parametrize("term", ["arithmetic intensity", "AI", "ridge", "ceiling", "bound"])
def test_glossary(term: str) -> None:
    assert len(answer("glossary", term)["rows"]) == 1


def test_chart_list_and_one(tmp_path: Path) -> None:
    assert "pyramid" in run("chart").output
    assert run("chart", "peaks", "--on", "a100-sxm-80gb", "--out", str(tmp_path / "peaks.svg")).exit_code == 0
    assert "memory-bound" in run("chart", "roofline", "--on", "h200").output
