"""Pictures that commands draw of what was asked: cases, levels, profiles, formats, comparisons, one gap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import run

ROOT = Path(__file__).parents[2]
FAULTS = ROOT / "examples" / "faults"
NCU = ROOT / "tests" / "fixtures" / "ncu" / "h200_raw.csv"
RECONCILE = (
    "reconcile", str(FAULTS / "record" / "kernels.csv"), "--cases", str(FAULTS / "cases.csv"), "--on", "h200-sxm",
)  # fmt: skip


def texts(path: Path, *words: str) -> list[str]:
    """What a command wrote to a picture, as the texts of the SVG."""
    done = run(*words, "--out", str(path))
    assert done.exit_code == 0, done.output
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_one_prediction_names_its_kernel_time_and_share(tmp_path: Path) -> None:
    shown = texts(tmp_path / "x.svg", "predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm")
    assert "gemm 4096³ in bf16 on h200-sxm" in shown
    assert any(re.fullmatch(r"[\d.]+ us, \d+ % of roofline", text) for text in shown)


def test_levels_are_drawn_when_they_are_asked_for(tmp_path: Path) -> None:
    sizes = ("predict", "gemm", "m=4096", "n=4096", "k=4096", "--on", "h200-sxm", "--levels")
    shown = texts(tmp_path / "x.svg", *sizes)
    assert any(text.startswith("L2 ") for text in shown)
    assert any(re.fullmatch(r"HBM \d+ %", text) for text in shown)
    done = run(
        "predict",
        "gemm",
        "m=1..64",
        "n=4096",
        "k=4096",
        "--on",
        "h200-sxm",
        "--levels",
        "--out",
        str(tmp_path / "y.svg"),
    )
    assert done.exit_code == 2
    assert "--levels draws one case" in done.output


def test_cases_are_drawn_with_their_share_of_the_time(tmp_path: Path) -> None:
    shown = texts(tmp_path / "x.svg", "predict", "--cases", str(FAULTS / "cases.csv"), "--on", "h200-sxm")
    assert "55 cases of cases.csv on h200-sxm" in shown
    assert "50 % of the time" in shown
    done = run("predict", "--cases", str(FAULTS / "cases.csv"), "--peak", "", "--out", str(tmp_path / "y.svg"))
    assert done.exit_code == 2
    assert not (tmp_path / "y.svg").exists()


@pytest.mark.parametrize("suffix", [".svg", ".html"])
def test_cases_in_error_are_left_out_of_the_picture_and_named(tmp_path: Path, suffix: str) -> None:
    source, out = tmp_path / "cases.csv", tmp_path / f"x{suffix}"
    source.write_text("op,n\nadd,1e8\nadd,many\nmul,1e8\n")
    done = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(out))
    assert done.exit_code == 1
    assert "2 cases of cases.csv on h200-sxm" in out.read_text(encoding="utf-8")
    assert done.stderr.splitlines()[1:] == [
        "ridgeline: row 2, column n: must be a whole number of at least 1, got 'many'",
        "ridgeline: 1 of 3 cases could not be predicted; left out of the picture",
    ]
    out.unlink()
    source.write_text("op,n\nadd,many\n")
    done = run("predict", "--cases", str(source), "--on", "h200-sxm", "--out", str(out))
    assert (done.exit_code, out.exists()) == (2, False)
    assert "row 1, column n" in done.stderr


def test_a_profile_is_drawn_on_the_roofline_of_a_machine(tmp_path: Path) -> None:
    shown = texts(tmp_path / "x.svg", "import", str(NCU), "--on", "h200-sxm")
    assert "12 kernels on the roofline of h200-sxm" in shown
    assert any(text.startswith("gemm_fp32_4096 ") and text.endswith(" %") for text in shown)
    done = run("import", str(NCU), "--out", str(tmp_path / "y.svg"))
    assert (done.exit_code, "--on" in done.output) == (2, True)
    trace = ROOT / "tests" / "fixtures" / "torch" / "trace_cpu.json.gz"
    done = run("import", str(trace), "--on", "h200-sxm", "--out", str(tmp_path / "z.svg"))
    assert (done.exit_code, "counted flops and bytes" in done.output) == (2, True)


def test_precisions_and_compare_draw_the_op_they_were_given(tmp_path: Path) -> None:
    sizes = ("m=64", "n=4096", "k=4096")
    shown = texts(tmp_path / "x.svg", "precisions", "gemm", *sizes, "--on", "h200-sxm", "--dtypes", "fp32,bf16")
    assert "gemm 64x4096x4096 in 2 formats on h200-sxm" in shown
    shown = texts(tmp_path / "y.svg", "compare", "a100-sxm-80gb", "h100-sxm", "--op", "gemm m=64 n=4096 k=4096")
    assert "gemm 64x4096x4096 on a100-sxm-80gb, h100-sxm" in shown


def test_the_gap_of_one_kernel_is_a_waterfall_from_the_floor_to_the_measured_time(tmp_path: Path) -> None:
    shown = texts(tmp_path / "x.svg", *RECONCILE, "--kernel", "naive_gemm")
    assert "Where the time of naive_gemm goes on h200-sxm" in shown
    assert {"roofline floor", "measured"} <= set(shown)
    done = run(*RECONCILE, "--kernel", "no_such_kernel", "--out", str(tmp_path / "y.svg"))
    assert (done.exit_code, "no_such_kernel" in done.output) == (2, True)
    assert run(*RECONCILE, "--kernel", "naive_gemm").exit_code == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_gap_report_is_drawn_with_dots_by_time(tmp_path: Path, theme: str) -> None:
    shown = texts(tmp_path / "x.svg", *RECONCILE, "--theme", theme)
    assert "Predicted vs measured on h200-sxm" in shown
    assert any(text.startswith("area of a dot: share of the time") for text in shown)
