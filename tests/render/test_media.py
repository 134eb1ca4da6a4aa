"""Any name in any medium stays text: files parse, nothing of it is an element, a link, a formula or an escape."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amount import WIDE
from ridgeline.app.cli.echo import harmless
from ridgeline.app.cli.present import json_text
from ridgeline.core.intake.text import clean, guarded, unguarded
from ridgeline.render.chart import LOG, Axis, Bar, Chart, Line, Mark, Panel, Picture, Point, Region
from ridgeline.render.draw import data, html, mpl, terminal
from ridgeline.render.draw.html import Page, Section
from ridgeline.render.table import Table, columns

EVIL = (
    "</script><script>alert(1)</script>", "<!-- <img src=x onerror=alert(1)> -->", "--!><b>", "]]>", '" onload="alert(1)', "' x='",
    r"$\frac{1}{", "$x$", "$", "=cmd|' /C calc'!A0", "+1+1", "-5 %", "@SUM(A1)", "\t=1", "'=1", "''", "-5", "-.5e3",
    "a|b", "\\|", "\\", "`x` ``", "[a](javascript:alert(1))", "[a]: javascript:alert(1)", "<javascript:alert(1)>", "# head", "> ", "---",
    "&lt;script&gt;", "&#60;b&#62;", "\x1b[2J\x1b]0;title\x07", "a\r\nb\x00\x0b\x85\u2028", "\ud800", "\udfff\ud800", "\ud83d\ude00", "\ufffe\uffff",
    "\u202eabc", "日本", "😀", "#1a1f27", 'a id="text_1" font-size: 1px', "<metadata>", "%s{0}", "a" * 300,
)  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(EVIL),
    st.text(st.characters(exclude_categories=()), max_size=20),
    st.lists(st.sampled_from(EVIL), min_size=2, max_size=3).map("".join),
)


def unescaped(line: str) -> str:
    """A line of markdown without the characters that a backslash makes plain."""
    return re.sub(r"\\.", "", line)


def table(name: str) -> Table:
    rows = [{"name": name, "note": name, "value": 1.5}, {"name": "plain", "note": None, "value": -2.5}]
    return Table(name, columns("name", "note", "value"), rows, (name, "a note"))


def chart(name: str) -> Chart:
    axes = Axis("arithmetic intensity", "FLOP/B", LOG, (0.1, 100)), Axis(name, "FLOP/s", LOG, (1e9, 1e13))
    point = Point(1, 1e11, name, name, name=name, details={"time_us": 5.0, name: name})
    return Chart(
        "roofline", name, *axes, name, (Line(((0.1, 1e9), (10, 1e11)), "bandwidth", name, name),), (point,),
        regions=(Region(name),), marks=(Mark("x", 3.0, name),), notes=(name,),
    )  # fmt: skip


def bars(name: str) -> Chart:
    made = (Bar(name, 1.0, None, name, name), Bar("plain", 2.0))
    return Chart("bars", name, Axis("time", "s", range=(0.0, 3.0)), Axis("", shown=False), name, bars=made, look="bars")


def panel(name: str) -> Panel:
    return Panel(name, (chart(name), bars(name)), name, (name,))


class Elements(HTMLParser):
    """How often each element with its attributes comes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[" ".join([tag, *sorted(name for name, _ in attrs)])] += 1

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@given(NAMES)
def test_a_markdown_table_keeps_its_cells(name: str) -> None:
    for text in (table(name).markdown(), data._markdown(chart(name)), data._markdown(bars(name))):
        text.encode()
        lines = [line for line in text.split("\n") if line.startswith("| ")]
        assert len({unescaped(line).count("|") for line in lines}) == 1
        assert not re.search(r"<[A-Za-z/!?]", text)
        assert not re.search(r"\](?:\(|:|\[)", text)
        assert all(line.isprintable() for line in text.split("\n"))
        assert sum(line.startswith("#") for line in text.split("\n")) <= 1
        assert not any(line.startswith((">", "---", "```")) for line in text.split("\n"))
    for line in table(name).markdown().split("\n"):
        if line.startswith("| "):
            assert "`" not in unescaped(line)


@given(NAMES)
def test_csv_holds_no_formula_and_reads_back(name: str) -> None:
    (head, first, second) = csv.reader(io.StringIO(table(name).csv()))
    assert head == ["name", "note", "value"]
    assert [unguarded(cell) for cell in first] == [clean(name), clean(name), "1.5"]
    assert second == ["plain", "", "-2.5"]
    heads, *_ = csv.reader(io.StringIO(Table("", columns(name), [{name: 1}]).csv()))
    assert [unguarded(cell) for cell in heads] == [clean(name)]
    for cell in (*first, *heads):
        assert not cell.startswith(("=", "@", "\t", "\r")) or not cell
        assert not cell.startswith(("+", "-")) or float(cell) is not None


@given(NAMES)
@example("'=")
@example("-1")
def test_what_is_guarded_in_csv_is_found_again(name: str) -> None:
    assert unguarded(guarded(name)) == name


@given(NAMES)
def test_json_is_read_by_strict_readers(name: str) -> None:
    document = {"name": name, name: [name], "rows": [{"name": name}] * 70}
    for text in (
        json_text(document),
        json_text([{"name": name}] * 70),
        data._json(chart(name)),
        data._json(bars(name)),
    ):
        text.encode()
        written = json.loads(text)
        json.dumps(written, ensure_ascii=False).encode()
    assert json.loads(json_text({"a": "\\ud800 \U0001f600"})) == {"a": "\\ud800 \U0001f600"}


@given(NAMES)
def test_a_terminal_gets_lines_and_nothing_else(name: str) -> None:
    for text in (table(name).text(), *(terminal.draw(make(name)) for make in (chart, bars, panel))):
        assert all(line.isprintable() for line in text.split("\n"))
    assert re.fullmatch(r"(?:\x1b\[[0-9;]*m|[^\x00-\x08\x0b-\x1f\x7f-\x9f])*", harmless(name))


def page(name: str, *pictures: Picture) -> str:
    sections = [Section(name, name, pictures, [table(name)]), Section(name, name, (), [table(name)], folded=True)]
    return html.text(Page(name, sections, {"name": name, name: name}, [name, "an answer"], {name: name}))


LONG = {"span", "br"}  # what cells of long names and of several lines have


def assert_page_is_only_ours(text: str, plain: str) -> None:
    text.encode()
    elements = Elements(text)
    allowed = Elements(plain).seen
    # a name that is empty has no element; every other one has those of a plain name and of long cells
    assert set(elements.seen) <= set(allowed) | {"th scope", "td class", "td", "th class scope"} | LONG
    assert elements.seen["script"] == allowed["script"]
    for identity in ("data", "dots"):
        written = re.search(rf'<script type="application/json" id="{identity}">(.*?)</script>', text, re.S)
        assert written
        json.loads(written[1])
        assert "<" not in written[1]


@given(NAMES)
def test_a_page_of_tables_has_no_element_of_a_name(name: str) -> None:
    assert_page_is_only_ours(page(name), page("plain"))


def svg_of(picture: Picture) -> tuple[set[str], list[str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a character that the font lacks is no news to anybody
        root = ElementTree.fromstring(mpl.svg(picture))
    found = {" ".join([element.tag, *sorted(element.attrib)]) for element in root.iter()}
    return found, [element.text or "" for element in root.iter()]


@cache
def plain_svg() -> set[str]:
    return svg_of(chart("plain name"))[0]


@settings(max_examples=24 if WIDE else 3)
@given(NAMES)
@example("".join(EVIL[:18]))
@example("$a_{b}$ </text><script>")
@example("日本 \x1b[2J\x00\ud800\ufffe")
def test_svg_parses_and_shows_the_name_as_it_is(name: str) -> None:
    found, texts = svg_of(chart(name))
    foreign = found - plain_svg()
    assert not {tag for tag in foreign if "http://www.w3.org/2000/svg" not in tag}
    assert not {tag for tag in foreign if re.search(r"\}(?:script|a|image|foreignObject|metadata)\b| on", tag)}
    tip = next((text for text in texts if text.endswith("1 FLOP/B, 100 GFLOP/s")), None)
    assert tip is not None
    assert tip.strip().startswith(clean(name)[:200].strip())


@cache
def plain_elements() -> Counter[str]:
    return Elements(page("plain", panel("plain"))).seen


@settings(max_examples=12 if WIDE else 2)
@given(NAMES)
@example("#1a1f27 </svg><script>alert(1)</script> -->")
def test_a_page_with_pictures_has_no_element_of_a_name(name: str) -> None:
    text = page(name, panel(name))
    text.encode()
    elements, allowed = Elements(text).seen, plain_elements()
    assert elements["script"] == allowed["script"]
    drawn = {tag.split()[0] for tag in allowed} | {"path", "g", "use", "tspan"}
    assert {tag.split()[0] for tag in elements} <= drawn | LONG
    assert not [tag for tag in elements if re.search(r" on| href$| src", tag) and tag not in allowed]


@pytest.mark.parametrize("suffix", [".png", ".pdf"])
def test_pixels_and_pages_take_any_name(suffix: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("".join(EVIL[:20]), "日本 😀 \x1b[2J\x00\ud800\ufffe"):
            out = tmp_path / f"x{suffix}"
            mpl.render(bars(name), out)
            assert out.read_bytes().startswith({".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix])
            out.unlink()
