"""The command line as a user meets it: whole commands, their JSON, their tables, and what bad input gets."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ridgeline.cli import main

ROOT = Path(__file__).parents[1]

FIELDS = [
    "op",
    "dtype",
    "machine",
    "shape",
    "flops",
    "bytes",
    "intensity",
    "ridge",
    "bound",
    "limiter",
    "attainable",
    "floor_us",
    "time_us",
    "efficiency",
    "ceilings",
    "confidence",
]


def run(*words: str) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# -- predict --------------------------------------------------------------------------------------------------


def test_one_prediction_has_the_promised_fields() -> None:
    row = answer("predict", "gemm", "m=4096", "n=14336", "k=4096", "--on", "h200-sxm", "--ceilings", "stated")
    assert set(FIELDS) <= set(row)
    assert row["flops"] == 2 * 4096 * 14336 * 4096
    assert row["bytes"] == 2 * (4096 * 4096 + 4096 * 14336 + 4096 * 14336)
    assert row["shape"] == {"m": 4096, "n": 14336, "k": 4096}
    assert (row["bound"], row["limiter"], row["ceilings"]) == ("compute", "tensor.bf16", "stated")
    assert row["floor_us"] == pytest.approx(row["flops"] / 989.4e12 * 1e6)
    assert row["time_us"] > row["floor_us"]
    assert row["efficiency"] == pytest.approx(row["floor_us"] / row["time_us"])


def test_measured_ceilings_are_the_default_where_there_are_any() -> None:
    """S0-46: the H200 was measured, the H100 was not; every answer says which it used."""
    assert answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")["ceilings"] == "measured"
    assert answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h100-sxm")["ceilings"] == "stated"


def test_a_sweep_is_a_list_and_several_axes_a_grid() -> None:
    rows = answer("predict", "gemm", "m=1..8192", "n=4096", "k=1024,4096", "--on", "h100-sxm")
    assert len(rows) == 14 * 2
    assert [row["shape"]["m"] for row in rows[::2]] == [2**power for power in range(14)]
    assert {row["shape"]["k"] for row in rows} == {1024, 4096}


def test_table_of_one_prediction_reads_well() -> None:
    text = run("predict", "axpy", "n=1e8", "--dtype", "fp32", "--on", "a100-sxm-80gb").output
    assert "memory, limited by hbm" in text
    assert "0.1667 FLOP/B at hbm" in text
    assert "1.74 % of the vector.fp32 peak" in text
    advice = next(line for line in text.splitlines() if line.startswith("next"))
    assert "fuse" in advice
    assert "tensor units" not in advice


def test_explain_lists_every_addend_ceiling_and_source() -> None:
    text = run("predict", "gemm", "m=128", "n=256", "k=512", "--dtype", "fp32", "--on", "h100-sxm", "--explain").output
    for part in (
        "2 m n k",
        "m k x 4 B",
        "k n x 4 B",
        "m n x 4 B",
        "a fused multiply-add counts as two",
        "whitepaper",
        "datasheet",
        "tiles and waves",
        "expected time",
        "in four cases of five between",
    ):
        assert part in text
    for op, formula in [("add n=100", "1 n"), ("dot n=100", "n - 1")]:
        assert formula in run("predict", *op.split(), "--on", "h100-sxm", "--explain").output


def test_levels_show_one_row_each_and_say_what_is_not_known() -> None:
    text = run(
        "predict",
        "gemm",
        "m=4096",
        "n=4096",
        "k=4096",
        "tile=128",
        "--on",
        "a100-sxm-80gb",
        "--dtype",
        "fp32",
        "--levels",
    ).output
    assert re.search(r"^l2 .*31\.51", text, re.M)
    assert re.search(r"^hbm .*682\.7", text, re.M)
    assert "never a sum" in text


@pytest.mark.parametrize(("kind", "floor"), [("stated", 312e12), ("derived", 108 * 2048 * 1.41e9)])
def test_ceilings_can_be_chosen(kind: str, floor: float) -> None:
    row = answer("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "a100-sxm-80gb", "--ceilings", kind)
    assert row["ceilings"] == kind
    assert row["floor_us"] == pytest.approx(2 * 8192**3 / floor * 1e6)


def test_measured_ceilings_that_do_not_exist_are_refused() -> None:
    result = run("predict", "gemm", "m=8", "n=8", "k=8", "--on", "a100-sxm-80gb", "--ceilings", "measured")
    assert result.exit_code == 2
    assert "no measured figure" in result.output
    assert "stated and derived" in result.output


def test_two_number_machine() -> None:
    row = answer(
        "predict",
        "gemm",
        "m=1",
        "n=28672",
        "k=8192",
        "--dtype",
        "fp16",
        "--peak",
        "989 TFLOP/s",
        "--bandwidth",
        "3.35 TB/s",
        "--efficiency",
        "0.78",
    )
    assert row["time_us"] == pytest.approx(179.81, rel=1e-4)
    assert row["bound"] == "memory"


def test_storage_formats() -> None:
    row = answer(
        "predict",
        "linear",
        "batch=1",
        "in_features=8192",
        "out_features=28672",
        "--weights",
        "int4_g128",
        "--on",
        "h100-sxm",
    )
    assert row["intensity"] == pytest.approx(3.88, rel=1e-3)
    assert row["dtype"] == "bf16"


def test_a_measured_time_is_placed() -> None:
    row = answer("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "h200-sxm", "--took", "1.4132 ms")
    assert row["achieved"]["rate"] == pytest.approx(778e12, rel=1e-3)
    assert row["achieved"]["verdict"] == "compute"
    text = run("predict", "gemm", "m=8192", "n=8192", "k=8192", "--on", "h200-sxm", "--took", "0.5 ms").output
    assert "Above the roof" in text


def test_regime_change_is_named() -> None:
    row = answer(
        "predict",
        "gemm",
        "m=1",
        "n=28672",
        "k=8192",
        "--dtype",
        "fp16",
        "--peak",
        "989 TFLOP/s",
        "--bandwidth",
        "3.35 TB/s",
    )
    assert row["turns_compute_bound_at"] == {"m": 310}
    never = answer("predict", "linear", "batch=1", "in_features=256", "out_features=256", "--on", "h100-sxm")
    assert never["turns_compute_bound_at"] == {"batch": None}


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".html", ".json", ".csv", ".md"])
def test_out_writes_every_format(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"answer{suffix}"
    assert run("predict", "gemm", "m=1..64", "n=4096", "k=4096", "--on", "h200-sxm", "--out", str(path)).exit_code == 0
    assert path.stat().st_size > 200
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    if suffix == ".csv":
        assert len(list(csv.DictReader(path.open()))) == 7


def test_plot_in_the_terminal() -> None:
    text = run("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm", "--plot").output
    assert "memory-bound" in text
    assert "compute-bound" in text
    assert "arithmetic intensity" in text


@pytest.mark.parametrize(
    "machine",
    ["tpu-v5e", "apple-m4-max", "epyc-9654", "mi300x", "v100-sxm2-32gb", "gaudi2", "trainium2", "t4", "b300-sxm"],
)
def test_every_kind_of_machine_answers(machine: str) -> None:
    dtype = {"apple-m4-max": "fp32", "v100-sxm2-32gb": "fp16", "t4": "fp16"}.get(machine, "bf16")
    for op in (
        ["gemm", "m=4096", "n=4096", "k=4096"],
        ["softmax", "rows=4096", "cols=4096"],
        ["attention", "batch=1", "heads=32", "seq_q=4096", "head_dim=128", "causal=yes"],
    ):
        row = answer("predict", *op, "--dtype", dtype, "--on", machine)
        assert 0 < row["floor_us"] <= row["time_us"]


# -- other commands -------------------------------------------------------------------------------------------


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


def test_machines_are_compared_by_one_kind_of_ceilings() -> None:
    """The H200 was measured, the H100 was not: both are judged by their datasheets, unless another kind is asked for."""
    rows = answer("compare", "h100-sxm", "h200-sxm", "--op", "gemm m=4096 n=4096 k=4096")
    assert rows[1]["compute_growth"] == pytest.approx(1.0)
    assert rows[1]["bandwidth_growth"] == pytest.approx(4.8 / 3.35)
    assert rows[1]["floor_us"] == pytest.approx(rows[0]["floor_us"])
    alone = answer("compare", "h200-sxm")[0]
    assert alone["peak"] < 989.4e12
    listed = {row["name"]: row for row in answer("machines")}
    assert (listed["h200-sxm"]["peak_bf16"], listed["h200-sxm"]["bandwidth"]) == (989.4e12, 4.8e12)


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


def test_compare() -> None:
    rows = answer("compare", "a100-sxm-80gb", "h100-sxm", "b200", "--op", "gemm m=1 n=4096 k=4096")
    assert [row["gains"] for row in rows] == [None, "prefill", "decode, by a little"]
    assert rows[1]["speedup"] > 1
    left_out = run("compare", "h100-sxm", "t4").output
    assert "t4 left out" in left_out


@pytest.mark.parametrize("name", ["common", "blas", "typical", "batches", "peaks", "tiling", "regimes", "kernels"])
@pytest.mark.parametrize("machine", ["a100-sxm-80gb", "h200-sxm"])
def test_named_tables(name: str, machine: str) -> None:
    document = answer("table", name, "--on", machine)
    assert document["rows"]


@pytest.mark.parametrize("term", ["arithmetic intensity", "AI", "ridge", "ceiling", "bound"])
def test_glossary(term: str) -> None:
    assert len(answer("glossary", term)["rows"]) == 1


def test_help_names_the_origin_and_every_command_explains_itself() -> None:
    text = run("--help").output
    assert "Williams, Waterman" in text
    for name in main.commands:
        assert run(name, "--help").exit_code == 0


def test_chart_list_and_one(tmp_path: Path) -> None:
    assert "pyramid" in run("chart").output
    assert run("chart", "peaks", "--on", "a100-sxm-80gb", "--out", str(tmp_path / "peaks.svg")).exit_code == 0
    assert "memory-bound" in run("chart", "roofline", "--on", "h200").output


# -- bad input: one message, exit code 2, no traceback, nothing written -----------------------------------------

GEMM = ("gemm", "m=8", "n=8", "k=8")
BAD = [
    (("predict", "gem", "m=8", "--on", "h200"), ["unknown op 'gem'", "gemm"]),
    (("predict", *GEMM, "--on", "h20O"), ["unknown machine 'h20O'", "h20"]),
    (("predict", *GEMM, "--on", "h100"), ["fits several machines", "h100-sxm"]),
    (("predict", *GEMM, "--on", "h200", "--dtype", "bf17"), ["unknown dtype 'bf17'", "bf16"]),
    (("predict", *GEMM, "--on", "t4", "--dtype", "bf16"), ["t4 does no bf16", "fp16"]),
    (("predict", *GEMM, "--on", "h100-sxm", "--dtype", "int4"), ["does no int4", "--weights int4"]),
    (("predict", "gemm", "m=8", "n=8", "q=8", "--on", "h200"), ["unknown parameter of gemm 'q'"]),
    (("predict", "gemm", "m=8", "n=8", "--on", "h200"), ["gemm needs k"]),
    (("predict", "gemm", "m=8", "m=9", "n=8", "k=8", "--on", "h200"), ["m is given twice"]),
    (("predict", "gemm", "m", "n=8", "k=8", "--on", "h200"), ["not of the form name=value"]),
    (("predict", "gemm", "m=0", "n=8", "k=8", "--on", "h200"), ["m must be a whole number of at least 1, got 0"]),
    (("predict", "gemm", "m=-3", "n=8", "k=8", "--on", "h200"), ["at least 1, got -3"]),
    (("predict", "gemm", "m=2.5", "n=8", "k=8", "--on", "h200"), ["got 2.5"]),
    (("predict", "gemm", "m=nan", "n=8", "k=8", "--on", "h200"), ["'nan' is not a number"]),
    (("predict", "gemm", "m=inf", "n=8", "k=8", "--on", "h200"), ["'inf' is not a number"]),
    (("predict", "gemm", "m=1e300", "n=8", "k=8", "--on", "h200"), ["2^53"]),
    (("predict", "gemm", "m=2^9999", "n=8", "k=8", "--on", "h200"), ["too large"]),
    (("predict", "gemm", "m=8..1", "n=8", "k=8", "--on", "h200"), ["runs upwards"]),
    (("predict", "gemm", "m=1..1e15:1", "n=8", "k=8", "--on", "h200"), ["ten million is the most"]),
    (("predict", "gemm", "m=eight", "n=8", "k=8", "--on", "h200"), ["'eight' is not a number"]),
    (("predict", *GEMM), ["no machine", "--on"]),
    (("predict", *GEMM, "--peak", "1 TFLOP/s"), ["both --peak and --bandwidth"]),
    (("predict", *GEMM, "--peak", "1 TB/s", "--bandwidth", "1 TB/s"), ["is a bandwidth", "rate of work"]),
    (("predict", *GEMM, "--peak", "fast", "--bandwidth", "1 TB/s"), ["'fast' is not a quantity"]),
    (("predict", *GEMM, "--peak", "0 TFLOP/s", "--bandwidth", "1 TB/s"), ["peak must be a positive"]),
    (("predict", *GEMM, "--on", "h200", "--efficiency", "1.5"), ["efficiency must lie in (0, 1]"]),
    (("predict", *GEMM, "--on", "h200", "--launch", "8 GB"), ["is an amount of data"]),
    (("predict", *GEMM, "--on", "h200", "--resident", "l9"), ["unknown memory level of h200-sxm 'l9'"]),
    (("predict", *GEMM, "--on", "h200", "--engine", "tensor-sparse", "--dtype", "fp32"), ["no tensor-sparse.fp32"]),
    (("predict", *GEMM, "--on", "h200", "--kv", "fp8"), ["gemm has no kv"]),
    (("predict", *GEMM, "--on", "nowhere.toml"), ["cannot read the machine file nowhere.toml"]),
    (("predict", *GEMM, "--on", "h200", "--out", "answer.xyz"), ["answer.xyz"]),
    (("predict", *GEMM, "--on", "h200", "--out", "/nowhere/answer.svg"), ["/nowhere"]),
    (("predict", *GEMM, "--on", "h200", "--took", "-1 us"), ["--took must be a positive time"]),
    (("predict",), ["name an op"]),
    (("predict", "attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64", "kv_heads=3", "--on", "h200"), ["kv_heads must divide heads"]),
    (("predict", "attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64", "variant=fast", "--on", "h200"), ["unknown variant of attention 'fast'", "flash"]),
    (("predict", "attention", "batch=1", "heads=8", "seq_q=64", "head_dim=64", "causal=maybe", "--on", "h200"), ["causal must be yes or no"]),
    (("predict", "conv2d", "batch=1", "c_in=3", "c_out=8", "h=2", "w=2", "kernel=5", "padding=0", "--on", "h200"), ["does not fit"]),
    (("predict", "all_reduce", "bytes=1e6", "ranks=1", "--on", "h200"), ["at least 2 ranks"]),
    (("predict", "all_reduce", "bytes=1e6", "ranks=8", "--peak", "1 TFLOP/s", "--bandwidth", "1 TB/s"), ["no link"]),
    (("machines", "h2000"), ["unknown machine"]),
    (("ops", "gemn"), ["unknown op", "gemm"]),
    (("table", "nothing", "--on", "h200"), ["unknown table"]),
    (("chart", "nothing", "--on", "h200"), ["unknown chart"]),
    (("glossary", "nonsense"), ["unknown term"]),
    (("compare", "h200", "nothing"), ["unknown machine"]),
    (("critical-batch", "0", "5", "--on", "h200"), ["at least 1"]),
    (("critical-batch", "5", "5", "--ridge", "-1"), ["--ridge must be positive"]),
    (("precisions", "gemm", "m=1", "n=1", "k=1", "dtype=bf16", "--on", "h200"), ["sweeps the dtype itself"]),
    (("predikt",), ["unknown command 'predikt'", "predict"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "parts"), BAD, ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else ""
)
def test_bad_input_gets_one_clear_message(
    words: tuple[str, ...], parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr
    assert not result.stdout.strip()
    assert list(tmp_path.iterdir()) == []


def test_five_mistakes_in_a_machine_file_are_five_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'name = "bad"\ntitle = "x"\nvendor = "x"\nkind = "toaster"\ncolour = "red"\n[sources]\na = "b"\n[peak.vector]\nfp32 = { stated = "1 TB/s", source = "a" }\n[[level]]\nname = "hbm"\ncapacity = "lots"\nbandwidth = "-5 GB/s"\nsource = "a"\n'
    )
    result = run("predict", *GEMM, "--on", str(path))
    assert result.exit_code == 2
    assert "5 mistakes found" in result.stderr
    assert result.stderr.count("\n  - ") == 5


# -- cases ----------------------------------------------------------------------------------------------------

CASES = """op,dtype,m,n,k,rows,cols,weights,note
gemm,bf16,4096,4096,4096,,,,first
gemm,fp16,1,28672,8192,,,int4_g128,second
softmax,fp16,,,,2048,2048,,third
gemm,bf16,16,16,16,,,,fourth
"""


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_cases_in_and_out(suffix: str, tmp_path: Path) -> None:
    source, target = tmp_path / "cases.csv", tmp_path / f"out{suffix}"
    source.write_text(CASES)
    result = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
    assert result.exit_code == 0, result.output
    again = answer("predict", "--cases", str(target), "--on", "h200-sxm")
    assert [row["note"] for row in again] == ["first", "second", "third", "fourth"]
    one = answer("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")
    assert float(again[0]["time_us"]) == pytest.approx(one["time_us"])
    assert again[3]["bound"] == "overhead"
    assert {row["error"] for row in again} == {""}


def test_a_bad_row_names_row_and_column_and_the_others_come_out(tmp_path: Path) -> None:
    source, target = tmp_path / "cases.csv", tmp_path / "out.csv"
    source.write_text(
        CASES
        + "gemm,bf16,-4,8,8,,,,bad\nnorm,bf16,,,,4,4,,worse\ngemm,int4,8,8,8,,,,lacking\ngemm,bf16,8,,8,,,,missing\ngemm,bf16,8,x,8,,,,text\n"
    )
    result = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(target))
    assert result.exit_code == 1
    rows = list(csv.DictReader(target.open()))
    assert [bool(row["error"]) for row in rows] == [False] * 4 + [True] * 5
    assert all(float(row["time_us"]) > 0 for row in rows[:4])
    expected = ["row 5, column m", "row 6, column op", "row 7", "row 8, column n", "row 9, column n"]
    assert all(part in row["error"] for part, row in zip(expected, rows[4:], strict=True))
    assert all(part in result.stderr for part in expected)
    assert rows[4]["time_us"] == ""


def test_a_column_that_a_result_would_hide_is_kept(tmp_path: Path) -> None:
    source = tmp_path / "cases.csv"
    source.write_text("op,m,n,k,time_us\ngemm,512,512,512,12.5\n")
    row = answer("predict", "--cases", str(source), "--on", "h200-sxm")[0]
    assert row["given_time_us"] == "12.5"
    assert row["time_us"] != 12.5


def test_machine_may_be_a_column(tmp_path: Path) -> None:
    source = tmp_path / "cases.jsonl"
    source.write_text(
        '{"op": "gemm", "m": 4096, "n": 4096, "k": 4096, "machine": "a100-sxm-80gb"}\n{"op": "gemm", "m": 4096, "n": 4096, "k": 4096, "machine": "h100-sxm"}\n'
    )
    rows = answer("predict", "--cases", str(source))
    assert rows[0]["time_us"] > rows[1]["time_us"]


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [("none.csv", None, "cannot read"), ("a.txt", "x", "not from '.txt'"), ("a.json", "{", "not valid json"), ("a.jsonl", "[1]", "list of objects"), ("a.parquet", "x", "not a parquet file"), ("b.csv", "op,m\ngemm,1,2,3\n", "more fields")],
)  # fmt: skip
def test_unusable_case_files(name: str, content: str | None, part: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    result = run("predict", "--cases", str(tmp_path / name), "--on", "h200-sxm")
    assert result.exit_code == 2
    assert part in result.stderr


def test_ctrl_c_while_the_modules_load_ends_in_one_word(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt", encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", "ridgeline", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Aborted!\n")
