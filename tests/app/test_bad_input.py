"""Bad input gets one message, exit code 2, no traceback, and nothing is written."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from commands import run

from ridgeline.app import cli
from ridgeline.machines import write as save
from ridgeline.machines.load import load

GEMM = ("gemm", "m=8", "n=8", "k=8")
TWO = ("--peak", "1 TFLOP/s", "--bandwidth", "1 TB/s")


@cache
def machine_text() -> str:
    return save.text(load("h200-sxm"))


BAD = [
    (("predict", "gem", "m=8", "--on", "h200"), ["unknown op 'gem'", "gemm"]),
    (("predict", *GEMM, "--on", "h20O"), ["unknown machine 'h20O'", "h20"]),
    (("predict", *GEMM, "--on", "tpu"), ["fits several machines", "tpu-v5e"]),
    (("predict", *GEMM, "--on", "h200", "--dtype", "bf17"), ["unknown dtype 'bf17'", "bf16"]),
    (("predict", *GEMM, "--on", "t4", "--dtype", "bf16"), ["t4 does no bf16", "fp16"]),
    (("predict", *GEMM, "--on", "mi210", "--dtype", "tf32"), ["mi210 does no tf32", "Use dtype fp32."]),
    (("predict", *GEMM, "--on", "tpu-v5e", "--dtype", "fp64"), ["tpu-v5e does no fp64", "Use dtype fp32."]),
    (("predict", *GEMM, "--on", "gaudi2", "--dtype", "fp32"), ["gaudi2 does no fp32", "Use dtype bf16."]),
    (("predict", "all_reduce", "bytes=8", "ranks=2", *TWO), ["two-number has no link", "a .toml file with a [[link]]"]),
    (("predict", *GEMM, "--on", "h100-sxm", "--dtype", "int4"), ["does no int4", "dtype bf16 and weights int4"]),
    (("predict", "gemm", "m=8", "n=8", "q=8", "--on", "h200"), ["unknown parameter of gemm 'q'"]),
    (("predict", "gemm", "m=8", "n=8", "--on", "h200"), ["gemm needs k"]),
    (("predict", "gemm", "m=8", "m=9", "n=8", "k=8", "--on", "h200"), ["m is given twice"]),
    (("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200", "--on", "t4"), ["option '--on' is given more than once"]),
    (("import", "trace.json", "--on", "h200", "--on", "t4"), ["option '--on' is given more than once"]),
    (("predict", "gemm", "m", "n=8", "k=8", "--on", "h200"), ["not of the form name=value"]),
    (("predict", "gemm", "m=0", "n=8", "k=8", "--on", "h200"), ["m must be a whole number of at least 1, got 0"]),
    (("predict", "gemm", "m=1,024", "n=8", "k=8", "--on", "h200"), ["write '1024' for one value"]),
    (("gate", "a.csv", "b.csv", "--min-change", "5"), ["5 is 500 %; write 0.05 for 5 %"]),
    (("predict", "gemm", "m=-3", "n=8", "k=8", "--on", "h200"), ["at least 1, got -3"]),
    (("predict", "gemm", "m=2.5", "n=8", "k=8", "--on", "h200"), ["got 2.5"]),
    (("predict", "gemm", "m=nan", "n=8", "k=8", "--on", "h200"), ["'nan' is not a number"]),
    (("predict", "gemm", "m=inf", "n=8", "k=8", "--on", "h200"), ["'inf' is not a number"]),
    (("predict", "gemm", "m=1e300", "n=8", "k=8", "--on", "h200"), ["2^53"]),
    (("predict", "gemm", "m=2^9999", "n=8", "k=8", "--on", "h200"), ["too large"]),
    (("predict", "gemm", "m=8..1", "n=8", "k=8", "--on", "h200"), ["runs upwards"]),
    (("predict", "gemm", "m=1..1e15:1", "n=8", "k=8", "--on", "h200"), ["--limit cases="]),
    (("predict", "gemm", "m=eight", "n=8", "k=8", "--on", "h200"), ["'eight' is not a number; write 4096, 1e8, 2^20, 64Ki or 16M"]),
    (("predict", *GEMM), ["no machine", "--on", "ridgeline measure"]),
    (("predict", *GEMM, "--peak", "1 TFLOP/s"), ["both --peak and --bandwidth"]),
    (("predict", *GEMM, "--peak", "1 TB/s", "--bandwidth", "1 TB/s"), ["is a bandwidth", "rate of work"]),
    (("predict", *GEMM, "--peak", "fast", "--bandwidth", "1 TB/s"), ["'fast' is not a quantity"]),
    (("predict", *GEMM, "--peak", "0 TFLOP/s", "--bandwidth", "1 TB/s"), ["peak must be a positive"]),
    (("predict", *GEMM, "--on", "h200", "--efficiency", "1.5"), ["efficiency must lie in (0, 1]"]),
    (("predict", *GEMM, "--on", "h200", "--launch", "8 GB"), ["is an amount of data"]),
    (("predict", *GEMM, "--on", "h200", "--resident", "l9"), ["unknown memory level of h200-sxm 'l9'"]),
    (("predict", *GEMM, "--on", "h200", "--engine", "tensor-sparse", "--dtype", "fp32"), ["no tensor-sparse.fp32"]),
    (("predict", *GEMM, "--on", "h200", "--kv", "fp8"), ["gemm has no kv"]),
    (("predict", *GEMM, "--on", ""), ["--on is empty; give it a value, or leave it out"]),
    (("model", "llama-3-8b", "--on", ""), ["--on is empty"]),
    (("chart", "roofline", "--on", " "), ["--on is empty"]),
    (("import", "trace.json", "--on", ""), ["--on is empty"]),
    (("predict", *GEMM, "--on", "h200", "--resident", ""), ["--resident is empty"]),
    (("predict", *GEMM, "--on", "h200", "--backend", ""), ["--backend is empty"]),
    (("predict", *GEMM, "--on", "h200", "--peak", ""), ["--peak is empty"]),
    (("run", "--on", ""), ["--on is empty"]),
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
    (("predict", "all_reduce", "bytes=1GFLOP", "ranks=8", "--on", "h200"), ["'1GFLOP' is not a number; write 1e9, 64MiB or 1GB"]),
    (("predict", "matmull", "m=8", "--on", "h200"), ["unknown op 'matmull'", "did you mean matmul", "`ridgeline ops`"]),
    (("predict", "gemm", "m=8", "M=9", "n=8", "k=8", "--on", "h200"), ["m is given twice"]),
    (("predict", "gemm", "m=1GB", "n=8", "k=8", "--on", "h200"), ["'1GB' is not a number"]),
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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("predict", "gemm", "m=1,2", "n=8", "k=8", "--on", "h200", "--took", "3 us"), "this sweep has 2"),
        (("predict", "--cases", "x.csv", "--on", "h200", "--explain"), "--explain has no effect with --cases"),
        (("predict", "--cases", "x.csv", "m=8", "--on", "h200"), "give either an op or --cases"),
        (("predict", *GEMM, "--on", "h200", "--plot", "--json"), "--plot has no effect with --json or --out"),
        (("predict", *GEMM, "--on", "h200", "--plot", "--out", "a.svg"), "--plot has no effect with --json or --out"),
        (("predict", *GEMM, "--on", "h200", "--explain", "--out", "a.svg"), "--explain has no effect on .svg files"),
        (("predict", *GEMM, "--on", "h200", "--levels", "--out", "a.csv"), "--levels has no effect on .csv files"),
        (("predict", *GEMM, "--on", "h200", "--explain", "--out", "a.csv"), "--explain has no effect on .csv files"),
        (("predict", *GEMM, "--on", "h200", "--theme", "dark"), "--theme dark colours a picture"),
        (("predict", *GEMM, "--on", "h200", "--resident", "hbm"), "--resident has no effect with hbm"),
        (("predict", *GEMM, *TWO, "--resident", "l2"), "unknown memory level of two-number 'l2'"),
        (("predict", *GEMM, *TWO, "--engine", "tensor"), "--engine has no effect on a machine of one peak"),
        (("predict", "copy", "n=8", "--on", "h200", "--engine", "tensor"), "it has no matrix product"),
        (("predict", *GEMM, "--on", "h200", "--backend", "vlm"), "unknown backend of h200-sxm 'vlm'"),
        (("critical-batch", "8", "8", "--ridge", "152", "--on", "h200"), "--on has no effect with --ridge"),
        (
            ("critical-batch", "8", "8", "--ridge", "152", "--ceilings", "stated"),
            "--ceilings has no effect with --ridge",
        ),
        (("whatif", "--on", "h200"), "--on has no effect without an op"),
        (("chart", "--on", "h200"), "--on has no effect without the name of a chart"),
        (("chart", "--out", "a.svg"), "--out has no effect without the name of a chart"),
        (("table", "--dtype", "bf16"), "--dtype has no effect without the name of a table"),
        (("machines", "--out", "a.svg"), "not to '.svg'"),
        (("reconcile", "x.csv", "--cases", "x.csv", "--ledger", "l.db"), "--ledger has no effect with --cases"),
        (("profile", "--self-check", "--kernel", "a"), "--kernel has no effect with --self-check"),
        (("profile", "--self-check", "--", "python", "a.py"), "leave out python a.py"),
        (("table", "peaks", "--on", "h200", "--dtype", "zzz"), "unknown dtype 'zzz'"),
        (("chart", "roofline", "--on", "h200", "--and", "t4"), "--and goes with compare"),
        (("chart", "roofline", "--peak", "1e-300 FLOP/s", "--bandwidth", "1 TB/s"), "between 1 and 1e+27 per second"),
        (("merge", "a.toml", "b.toml", "--out", "m.svg"), "written to .toml, not to '.svg'"),
        (("measure", "cpu", "--out", "no/such/folder/x.toml"), "does not exist; create it first"),
        (("run", "--report", "no/such/folder/x.html"), "does not exist; create it first"),
        (("measure", "collective", "--against", "here.toml"), "several machines"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(
    words: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.toml").write_text(machine_text(), encoding="utf-8")
    result = run(*words)
    assert result.exit_code == 2
    assert says in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["here.toml"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("model", "llama-3-8b", "--tp", "0"), "invalid value for '--tp': 0 is not in the range x>=1; see `ridgeline model --help`"),
        (("serve", "--port", "abc"), "invalid value for '--port': 'abc' is not a valid number; see `ridgeline serve --help`"),
        (("ops", "--zzz"), "no such option '--zzz'; see `ridgeline ops --help`"),
        (("gate",), "missing argument 'FILES...'; see `ridgeline gate --help`"),
    ],
)  # fmt: skip
def test_words_that_no_command_takes_get_one_line(
    words: tuple[str, ...], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ridgeline", *words])
    assert cli.run() == 2
    assert capsys.readouterr() == ("", f"ridgeline: {says}\n")


def test_a_machine_file_in_place_of_a_profile_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[peak.vector]\nfp32 = "1 TFLOP/s"\n')
    result = run("import", str(path))
    assert result.exit_code == 2
    assert "is TOML, as machine files are" in result.stderr
    assert "--on" in result.stderr
