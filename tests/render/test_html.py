"""The page: offline, with its data, in the reader's colours."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ridgeline as rl
from pictures import A100, picture
from ridgeline.programs import ops
from ridgeline.render.chart import read
from ridgeline.render.draw import files, html, mpl, themes
from ridgeline.render.figure import plot


def test_page_is_whole_offline_and_carries_its_data(tmp_path: Path) -> None:
    plot(A100, [rl.predict(ops.gemm(512, 512, 512), A100)]).save(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert "prefers-color-scheme: dark" in page
    assert "var(--rl-ink)" in page
    assert "<table>" in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert data
    assert read(json.loads(data[1])).title == "gemm 512³ in bf16 on a100-sxm-80gb"
    assert len(page) < 200_000


def test_long_cells_are_broken_into_lines_and_short_ones_are_not() -> None:
    table = html.table(["how"], [["x" * html.MAX_UNBROKEN_CELL], ["y" * (html.MAX_UNBROKEN_CELL + 1)]])
    assert f"<td>{'x' * html.MAX_UNBROKEN_CELL}</td>" in table
    assert f"<td class=long>{'y' * (html.MAX_UNBROKEN_CELL + 1)}</td>" in table
    assert "td.long { white-space: normal;" in html.STYLE


def test_every_drawn_colour_follows_the_reader() -> None:
    drawn = html.themed(mpl.svg(picture("dl")))
    assert not re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn)


def test_a_dark_page_stays_dark(tmp_path: Path) -> None:
    files.save(picture(), tmp_path / "x.html", "dark")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme" not in page
    assert themes.THEMES["dark"]["background"] in page
