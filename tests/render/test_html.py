"""The page as text: offline, complete without JavaScript, with its data, in the reader's colours."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import ridgeline as rl
from pictures import A100, picture
from ridgeline.programs import ops
from ridgeline.render.chart import LOG, Axis, Chart, Point, read
from ridgeline.render.draw import files, html, mpl
from ridgeline.render.draw.html.figures import dots, facts
from ridgeline.render.draw.html.tables import sort_value
from ridgeline.render.figure import plot
from ridgeline.render.table import Column, Table, columns

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'"


def embedded(page: str, identity: str = "data") -> Any:
    data = re.search(rf'<script type="application/json" id="{identity}">(.*?)</script>', page, re.S)
    assert data
    return json.loads(data[1])


class Elements(HTMLParser):
    """Names of all elements, attributes that run code, and script elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


def small_chart(name: str = "a") -> Chart:
    axes = Axis("arithmetic intensity", "FLOP/byte", LOG, (0.1, 100)), Axis("performance", "FLOP/s", LOG, (1e9, 1e13))
    return Chart("roofline", "A chart", *axes, points=(Point(1, 1e11, name, name=name, details={"time_us": 5.0}),))


def test_page_is_complete_offline_and_carries_its_data(tmp_path: Path) -> None:
    plot(A100, [rl.predict(ops.gemm(512, 512, 512), A100)]).save(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "var(--rl-ink)" in page
    assert read(embedded(page)).title == "gemm 512³ in bf16 on a100-sxm-80gb"
    assert len(page) < 200_000


def test_the_answer_comes_first_and_details_are_folded() -> None:
    sections = [html.Section("Kernels", "", [small_chart()]), html.Section("More", "all of it", folded=True)]
    page = html.text(html.Page("a report", sections, {}, ["167 us", "second line"], {"peak": "989 TFLOP/s"}))
    order = [
        "<main>",
        "<p>167 us</p>",
        "second line",
        "989 TFLOP/s",
        "<h2>Kernels</h2>",
        "<svg",
        "<summary>More</summary>",
    ]
    assert sorted(order, key=page.index) == order


def test_names_cannot_inject(tmp_path: Path) -> None:
    shown = Table(EVIL, columns("name", Column(EVIL)), [{"name": EVIL, EVIL: EVIL}], (EVIL,))
    sections = [html.Section(EVIL, EVIL, [small_chart(EVIL)], [shown])]
    hostile = Elements(html.text(html.Page(EVIL, sections, {EVIL: EVIL}, [EVIL], {EVIL: EVIL})))
    harmless = Elements(html.text(html.Page("a", [html.Section("a", "a", [small_chart()], [Table("a", columns("name", "b"), [{"name": "a", "b": "b" * len(EVIL)}], ("a",))])], {}, ["a"], {"a": "a"})))  # fmt: skip
    assert hostile.tags == harmless.tags
    assert hostile.handlers == []


def test_a_script_that_is_not_the_pages_own_may_not_run() -> None:
    page = html.text(html.Page("a", [], {}))
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/]{43}='\"", page)


def test_numbers_are_flush_right_and_sort_by_their_value() -> None:
    shown = Table("", columns("name", Column("time", unit="s"), "text"), [{"name": "a", "time": 2e-6, "text": "x"}, {"name": "b"}])  # fmt: skip
    page = html.text(html.Page("a", [html.Section("", tables=[shown])], {}))
    assert '<th scope="col" class="n">time us</th><th scope="col">text</th>' in page
    assert '<td class="n" data-value="2e-06">2</td><td>x</td>' in page
    assert '<td class="n">-</td>' in page


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("74.1 ms", 0.0741),
        ("70.2 ms [64, 77]", 0.0702),
        ("-5 %", -5.0),
        ("1,024", 1024.0),
        ("3.35 TB/s", 3.35e12),
        ("64 MiB", 64 * 2.0**20),
        ("3.4x", 3.4),
        ("6.8e-14 %", 6.8e-14),
        ("compute-bound", None),
        ("4096x4096", None),
        ("3x3 stencil", None),
    ],
)
def test_quantities_are_told_from_words(text: str, value: float | None) -> None:
    assert sort_value(text) == (None if value is None else pytest.approx(value))


def test_columns_without_a_value_are_left_out() -> None:
    shown = Table("", columns("name", "sustained", "how"), [{"name": "a", "sustained": None, "how": "x"}])
    page = html.text(html.Page("a", [html.Section("", tables=[shown])], {}))
    assert "sustained" not in page.partition("<main>")[2].partition("</main>")[0]


def test_long_cells_are_broken_into_lines_and_short_ones_are_not() -> None:
    table = html.table(["name", "how"], [["a", "x" * 32], ["b", "y" * 33]])
    assert f"<td>{'x' * 32}</td>" in table
    assert f'<td class="long">{"y" * 33}</td>' in table
    # the print style shows three lines of what is in a span
    assert f'<td class="long"><span>{"z" * 61}</span></td>' in html.table(["name", "how"], [["a", "z" * 61]])


def test_words_keep_their_lines() -> None:
    page = html.text(html.Page("a", [html.Section("Next", "for <b>:\n  ncu --csv\n  python x.py")], {}))
    assert '<p class="lines">for &lt;b&gt;:<br>  ncu --csv<br>  python x.py</p>' in page


def test_every_drawn_colour_follows_the_reader() -> None:
    drawn = html.themed(mpl.svg(picture("dl")))
    assert not re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn)


def test_a_dark_page_starts_dark(tmp_path: Path) -> None:
    files.save(picture(), tmp_path / "x.html", "dark")
    assert '<html lang="en" data-theme="dark">' in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_ids_are_unique_on_a_page_of_several_charts() -> None:
    page = html.text(html.Page("a", [html.Section("", "", [picture("dl"), picture("dl")])], {}))
    identities = re.findall(r' id="([^"]+)"', page)
    assert len(identities) == len(set(identities))


def test_every_dot_of_a_chart_has_its_element_and_its_facts() -> None:
    shown = picture("dl")
    page = html.text(html.Page("a", [html.Section("", "", [shown])], {}))
    cards = embedded(page, "dots")
    assert len(cards) == sum(len(chart.points) for chart in shown.charts)
    assert all(f'<g id="{identity}">' in page for identity in cards)


def test_the_card_has_times_interval_share_and_bound() -> None:
    details = {"measured_us": 80.0, "predicted_us": 70.0, "low_us": 60.0, "high_us": 90.0, "floor_us": 60.0, "bound": "memory", "limiter": "hbm"}  # fmt: skip
    assert dict(facts(details)) == {
        "measured": "80 us",
        "predicted [80 %]": "70 us [60 us, 90 us]",
        "roofline time": "60 us",
        "% of roofline": "75 %",
        "bound": "memory (hbm)",
    }
    (dot,) = dots(small_chart()).values()
    assert dot["at"] == [["AI", "1 FLOP/B"], ["rate", "100 GFLOP/s"]]


def test_rows_of_a_sweep_find_their_dots_by_intensity_and_time() -> None:
    shown = Table("", columns("m", "intensity", "time_us"), [{"m": 8, "intensity": 1.0, "time_us": 5.0}, {"m": 9, "intensity": 2.0, "time_us": 5.0}])  # fmt: skip
    page = html.text(html.Page("a", [html.Section("", "", [small_chart("gemm 8")], [shown])], {}))
    assert '<tr data-key="gemm 8"><th scope="row" class="n" data-value="8">' in page
    assert '<tr data-key="9">' in page
