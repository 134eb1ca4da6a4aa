"""The presenter: one answer as a file by its suffix, as JSON, or on the terminal."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ridgeline.app.cli.present import DATA_SUFFIXES, Output, Result, present, print_table
from ridgeline.core.errors import InputError
from ridgeline.machines.load import load
from ridgeline.render.charts import CHARTS
from ridgeline.render.table import Column, Table

FIRST = Table("first", (Column("a"), Column("b")), [{"a": 1, "b": "x|y"}], ("a note",))
SECOND = Table("second", (Column("c"),), [{"c": 2.5}])


def never() -> Any:
    raise AssertionError("a form that nobody asked for was made")


@dataclass(frozen=True)
class Score:
    median: float
    names: tuple[str, ...] = ("one",)


@pytest.mark.parametrize("suffix", DATA_SUFFIXES)
def test_tables_are_written_by_suffix_and_nothing_is_shown(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"answer{suffix}"
    present(Result(lambda: [FIRST, SECOND], {"a": float("inf")}, picture=never), Output(out=out))
    expected = {
        ".json": '{\n "a": null\n}\n',
        ".csv": "a,b\n1,x|y\n\nc\n2.5\n",
        ".md": "## first\n\n| a | b |\n| ---: | --- |\n| 1 | x\\|y |\n\na note\n\n## second\n\n| c |\n| ---: |\n| 2.5 |\n",
        ".txt": "first\na  b\n1  x|y\na note\n\nsecond\n  c\n2.5\n",
    }
    assert out.read_text(encoding="utf-8") == expected[suffix]
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"wrote {out}\n")


def test_a_picture_takes_every_other_suffix_and_json_is_printed_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answer.svg"
    picture = CHARTS["roofline"](load("h200-sxm"))
    present(Result(never, Score(0.5), picture=lambda: picture), Output(True, out))
    assert "<svg" in out.read_text(encoding="utf-8")
    assert json.loads(capsys.readouterr().out) == {"median": 0.5, "names": ["one"]}


def test_every_result_with_tables_has_a_page_that_answers_first(tmp_path: Path) -> None:
    out = tmp_path / "answer.html"

    def nothing_to_draw() -> Any:
        raise InputError("nothing of it has a place on a chart")

    result = Result(lambda: [FIRST, SECOND], Score(0.5), picture=nothing_to_draw, answer=lambda: ["167 us"])
    present(result, Output(out=out))
    page = out.read_text(encoding="utf-8")
    order = ["<h1>first</h1>", "<p>167 us</p>", "x|y", "a note", "<h3>Second</h3>", "2.5", '{"median":0.5']
    assert sorted(order, key=page.index) == order


def test_a_result_may_write_a_suffix_itself(tmp_path: Path) -> None:
    out = tmp_path / "answer.toml"
    present(Result(never, writers={".toml": lambda path: path.write_text("mine")}), Output(out=out))
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("result", "known"),
    [
        (Result(never), ".json, .csv, .md, .txt, .html"),
        (Result(document={}, writers={".md": never}), ".md, .json"),
    ],
)
def test_a_suffix_that_nobody_writes_is_refused(result: Result, known: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"written to {known}, not to '.xyz'"):
        present(result, Output(out=tmp_path / "answer.xyz"))
    assert list(tmp_path.iterdir()) == []


def test_the_terminal_gets_tables_and_texts_with_empty_lines_between(capsys: pytest.CaptureFixture[str]) -> None:
    present(Result(never, never, terminal=lambda: (SECOND, "text", FIRST)), Output())
    assert capsys.readouterr().out == "second\n  c\n2.5\n\ntext\n\nfirst\na  b\n1  x|y\na note\n"


def test_on_a_terminal_tables_are_framed_and_numbers_never_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    wide = Table("wide", (Column("n"), Column("text"), Column("empty")), [{"n": 123456789, "text": "word " * 20}])
    print_table(wide)
    framed = capsys.readouterr().out
    assert "┃" in framed
    assert "empty" not in framed  # a column without a value
    assert wide.columns[0].cell(123456789) in framed
    monkeypatch.setenv("COLUMNS", "12")
    print_table(wide)
    assert capsys.readouterr().out == replace(wide, columns=wide.columns[:2]).text() + "\n"
