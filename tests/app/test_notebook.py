"""Notebooks: what results look like as HTML, and `%%roofline` in a shell of our own and in IPython's."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import ridgeline as rl
from ridgeline.app import notebook
from ridgeline.app.notebook import html, magic
from ridgeline.app.notebook.html import prediction_table
from ridgeline.app.notebook.magic import Cell
from ridgeline.core.errors import InputError
from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step
from ridgeline.programs import ops
from ridgeline.render.charts import CHARTS
from ridgeline.render.draw.themes import THEMES
from ridgeline.render.table import Column, Table

H200 = rl.machine("h200-sxm")


class Shell:
    """As much of IPython as a cell magic needs."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Any] = {}
        self.ran: list[str] = []

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        assert kind == "cell"
        self.magics[name] = function

    def run_cell(self, text: str) -> Any:
        self.ran.append(text)
        try:
            exec(text, self.user_ns)
        except Exception:
            return SimpleNamespace(success=False)
        return SimpleNamespace(success=True)


@pytest.fixture
def shell() -> Shell:
    return Shell()


# -- HTML -----------------------------------------------------------------------------------------------------


def test_a_prediction_shows_its_table_and_its_place() -> None:
    text = html.prediction(rl.predict(ops.gemm(m=4096, n=14336, k=4096), H200))
    assert "<svg" in text
    assert "gemm 4096x14336x4096" in text
    assert ">compute<" in text
    assert "measured ceilings" in text
    assert "<script" not in text
    assert text.count("<div") == text.count("</div>")


def test_every_case_of_a_sweep_is_a_row_and_a_long_one_says_what_is_left_out() -> None:
    few = prediction_table(rl.predict(ops.gemm(m=[1, 16, 256], n=4096, k=4096), H200))
    assert [row["bound"] for row in few.rows] == ["memory", "memory", "compute"]
    many = html.prediction(rl.predict(ops.gemm(m=list(range(1, 101)), n=64, k=64), H200))
    assert many.count("<tr>") == 1 + html.MAX_ROWS
    assert "60 more rows are not shown" in many
    assert "<svg" not in many


def test_a_program_ends_in_its_sum() -> None:
    steps = (Step("up", ops.gemm(64, 64, 64)), Step("act", ops.gelu(64 * 64)))
    made = rl.predict(Program(steps), H200)
    rows = prediction_table(made).rows
    assert [row["name"] for row in rows] == ["up", "act", "all"]
    assert rows[-1]["time"] == pytest.approx(rows[0]["time"] + rows[1]["time"])


def test_work_without_flops_has_a_table_and_a_chart_of_bare_roofs() -> None:
    text = html.prediction(rl.predict(ops.copy(n=10**6), H200))
    assert "copy 1e6" in text


def test_texts_are_escaped() -> None:
    text = html.page(Table("a <b> & c", (Column("name"),), [{"name": "<script>alert(1)</script>"}], ("x < y",)))
    assert "a &lt;b&gt; &amp; c" in text
    assert "<script" not in text
    assert "x &lt; y" in text


def test_colours_follow_the_notebook_and_leave_the_rest_of_it_alone() -> None:
    style = html.style()
    for name in ("light", "dark"):
        assert f"--rl-ink: {THEMES[name]['ink']}" in style
    selectors = re.findall(
        r"([^{}]+)\{", style.replace("<style>", "").replace("@media (prefers-color-scheme: dark) {", "")
    )
    assert all(".ridgeline" in part for selector in selectors for part in selector.split(","))
    picture = html.page(CHARTS["roofline"](H200))
    drawn = picture[picture.index("<svg") :]
    assert "var(--rl-ink)" in drawn
    assert THEMES["light"]["ink"] not in drawn


def test_no_picture_of_a_notebook_points_into_another() -> None:
    chart = CHARTS["roofline"](H200)
    used = re.compile(r'(?:url\(|href=")#([^")]+)')
    first, second = (html.page(chart) for _ in range(2))
    assert used.findall(first)
    assert not set(used.findall(first)) & set(used.findall(second))
    assert all(f'id="{name}"' in first for name in used.findall(first))


def test_without_matplotlib_the_picture_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = html.page(CHARTS["roofline"](H200))
    assert "<pre>" in text
    assert "FLOP/B" in text


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, ridgeline.app.notebook; print([n for n in ('matplotlib', 'torch', 'IPython') if n in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_loading_the_extension_lets_results_show_themselves(shell: Shell) -> None:
    notebook.load_ipython_extension(shell)
    assert rl.predict(ops.gemm(64, 64, 64), H200)._repr_html_().startswith("<style>")  # type: ignore[attr-defined]
    assert "<svg" in CHARTS["roofline"](H200)._repr_html_()  # type: ignore[attr-defined]
    assert "<table>" in Table("", (Column("a"),), [{"a": 1}])._repr_html_()  # type: ignore[attr-defined]


# -- %%roofline -----------------------------------------------------------------------------------------------


def test_a_cell_is_timed_and_held_to_the_op_it_is_said_to_be(shell: Shell) -> None:
    ticks = iter([0.0, 2e-3, 5e-3, 6e-3, 9e-3, 18e-3])  # the cell takes 2, 1 and 9 ms
    line = "gemm m=512 n=512 k=512 dtype=fp32 --on h200-sxm --tool time --repeat 3"
    found = magic.run(shell, line, "x = 1 + 1", lambda: next(ticks))
    assert found is not None
    assert shell.user_ns["x"] == 2
    assert len(shell.ran) == 3
    assert found.walls == pytest.approx((2e-3, 1e-3, 9e-3))
    (row,) = found.table().rows
    assert row["time"] == pytest.approx(2e-3)  # the median
    floor = float(rl.predict(ops.gemm(512, 512, 512, dtype="fp32"), H200).floor)
    assert row["roof"] == pytest.approx(floor / 2e-3)
    chart = found.chart()
    assert chart is not None
    (point,) = [point for point in chart.charts[0].points if point.role == "observed"]
    assert point.y == pytest.approx(2 * 512**3 / 2e-3)
    assert "<svg" in found._repr_html_()
    assert "gemm 512³" in repr(found)


def test_a_cell_that_raises_shows_nothing(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.load_ipython_extension(shell)
    shell.magics["roofline"]("--tool time --on h200-sxm", "1 / 0")
    assert "_roofline" not in shell.user_ns
    assert capsys.readouterr().out == ""


def test_the_magic_shows_and_keeps_what_it_found(
    shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    notebook.load_ipython_extension(shell)
    shell.magics["roofline"]("--tool time --on h200-sxm", "y = 3")
    assert shell.user_ns["y"] == 3
    assert isinstance(shell.user_ns["_roofline"], Cell)
    assert "the cell" in capsys.readouterr().out


def test_ops_of_a_profile_are_placed_by_their_shapes() -> None:
    def op(name: str, seconds: float, shapes: list[list[int]], called: tuple[str, ...] = ()) -> Observation:
        settings = {"op": name, "shapes": shapes, "dtypes": ["bf16"] * len(shapes), "called": list(called)}
        return Observation(name, name, (seconds,), settings=settings, path=("block",))

    seen = (
        op("aten::matmul", 1e-6, [[512, 512], [512, 512]], ("aten::mm",)),  # hands it on: its own time is no product's
        op("aten::mm", 1e-4, [[512, 512], [512, 512]]),
        op("aten::gelu", 3e-4, [[512, 512]]),
        op("aten::svd", 1e-4, [[512, 512]]),
    )
    found = Cell((1e-3,), seen, H200)
    rows = {row["name"]: row for row in found.table().rows}
    assert next(iter(rows)) == "block: gelu 512x512"
    assert rows["block: mm 512x512 512x512"]["roof"] == pytest.approx(
        float(rl.predict(ops.gemm(512, 512, 512), H200).floor) / 1e-4
    )
    assert "roof" not in rows["block: matmul 512x512 512x512"]
    assert "roof" not in rows["block: svd 512x512"]
    assert sum(row.get("share", 0.0) for row in rows.values()) == pytest.approx(1)
    chart = found.chart()
    assert chart is not None
    assert {point.name for point in chart.charts[0].points if point.role == "observed"} == {"gemm 512³", "gelu 262144"}


def test_torch_ops_of_a_cell_are_observed(shell: Shell) -> None:
    torch = pytest.importorskip("torch")
    shell.user_ns |= {"torch": torch, "a": torch.randn(64, 64)}
    found = magic.run(shell, "--on xeon-8480plus", "b = torch.softmax(a @ a, -1)")
    assert found is not None
    names = [row["name"] for row in found.table().rows]
    assert "mm 64x64 64x64" in names
    assert names[-1] == "the cell"
    assert found.chart() is not None
    quiet = magic.run(shell, "--on xeon-8480plus", "c = 1")
    assert quiet is not None
    assert "no torch op ran in the cell, so only its wall time is known" in quiet.notes


def test_a_machine_without_known_ceilings_gives_times_only(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from ridgeline.core.machine import Machine

    monkeypatch.setattr("ridgeline.machines.load.load", lambda name: Machine("here"))
    found = magic.run(shell, "--tool time", "x = 1")
    assert found is not None
    assert found.chart() is None
    assert "ridgeline measure" in found.notes[0]
    assert "<svg" not in found._repr_html_()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--fast", "has no --fast; write %%roofline"),
        ("--on", "--on needs a value"),
        ("--repeat 0", "whole number of at least 1"),
        ("--repeat=x", "whole number of at least 1"),
        ("--tool ncu", "observed with torch or time"),
        ("--on 'h200", "No closing quotation"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        magic.parse_line(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nosuchop m=1 --on h200-sxm", "unknown op 'nosuchop'"),
        ("gemm 512 --on h200-sxm", "not of the form name=value"),
        ("gemm m=1 --on h200-sxm", "gemm needs n, k"),
        ("gemm m=1 n=1 q=1 --on h200-sxm", "unknown parameter of gemm 'q'"),
        ("--on nowhere", "unknown machine 'nowhere'"),
    ],
)
def test_a_wrong_word_is_told_before_the_cell_runs(
    line: str, message: str, shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.load_ipython_extension(shell)
    shell.magics["roofline"](line, "x = 1")
    assert message in capsys.readouterr().err
    assert shell.ran == []


def test_in_ipython_itself() -> None:
    pytest.importorskip("IPython")
    code = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ridgeline")
shell.run_cell("%%roofline gemm m=64 n=64 k=64 --on h200-sxm --tool time\\nx = 41\\nx += 1")
print(shell.user_ns["x"], type(shell.user_ns["_roofline"]).__name__)
html, _ = shell.display_formatter.format(shell.user_ns["_roofline"])
print("<svg" in html["text/html"])
shell.run_cell("%%roofline --on h200-sxm --tool time\\n1/0")
shell.run_cell("%%roofline --on h200-sxm --tool time --repeat 3\\nclass Loud:\\n    def __repr__(self): return 'shouted'\\nLoud()")
shell.run_cell("Loud()")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "42 Cell\nTrue" in done.stdout
    assert "ZeroDivisionError" in done.stdout
    assert "%%roofline on NVIDIA H200" in done.stdout
    assert done.stdout.count("shouted") == 1  # by the cell after it; a timed value is not shown
