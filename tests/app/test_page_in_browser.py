"""Report pages in Chromium: sorting, filtering, cards, highlights, a phone, paper. Nothing waits for a fixed time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import run as command
from small_cpu import KERNELS, SmallBench

from browser import CHROMIUM, Browser
from ridgeline.app import run
from ridgeline.app.reports.measured import run_page
from ridgeline.gaps.ledger import open_ledger
from ridgeline.render.chart import LOG, Axis, Chart, Point
from ridgeline.render.draw.html import Page, Section, write
from ridgeline.render.table import Column, Table, columns

pytestmark = [
    pytest.mark.needs_browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]
ROWS = 40
CARD = "document.getElementById('card')"
SHOWN = "[...document.querySelectorAll('tbody tr')].filter(row => row.checkVisibility())"
FIRST_CELLS = f"{SHOWN}.map(row => row.cells[0].textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium = Browser(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart and a table of forty kernels, of which one has no time."""
    points = [
        Point(2.0 ** (index % 10), 1e9 * (index + 1), "", "", "observed", f"kernel {index}", {"measured_us": float(index + 1)})
        for index in range(ROWS)
    ]  # fmt: skip
    axes = Axis("arithmetic intensity", "FLOP/byte", LOG, (0.5, 1024)), Axis("performance", "FLOP/s", LOG, (5e8, 1e11))
    # 9 ms comes before 80 us by its digits and after it by its value
    rows = [
        {
            "name": f"kernel {index}", "time": None if index == 7 else (ROWS - index) ** 4 * 1e-8,
            "bound": "compute-bound" if index % 2 else "memory-bound", "note": "a note of thirty characters ...",
        }
        for index in range(ROWS)
    ]  # fmt: skip
    shown = Table("", columns("name", Column("time", unit="s"), "bound", "note"), rows)
    details = Section("More", tables=[Table("", columns("word"), [{"word": "folded away"}])], folded=True)
    path = tmp_path_factory.mktemp("pages") / "many.html"
    sections = [Section("Kernels", "", [Chart("roofline", "Forty kernels", *axes, points=tuple(points))], [shown]), details]  # fmt: skip
    return write(path, Page("many", sections, {"rows": rows}, ["The answer in one line"], {"kernels": str(ROWS)}))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, many: Path) -> dict[str, Path]:
    """One page of each kind that commands write."""
    folder = tmp_path_factory.mktemp("reports")
    outcome = run.job(ledger=open_ledger(folder / "ledger.sqlite"), bench=SmallBench())
    run_page(outcome, folder / "run.html")
    cases = folder / "cases.csv"
    cases.write_text("name,op,m,n,k,rows,cols,dtype\ngemm_bf16_8192,gemm,8192,8192,8192,,,bf16\nsoftmax_bf16,softmax,,,,16384,4096,bf16\n")  # fmt: skip
    observed = "tests/fixtures/ncu/h200_raw.csv"
    commands = {
        "reconcile": ("reconcile", observed, "--cases", str(cases), "--on", "h200-sxm"),
        "sweep": ("predict", "linear", "batch=1..4096", "in_features=4096", "out_features=4096", "--on", "h200-sxm"),
        "import": ("import", observed),
        "chart": ("chart", "dl", "--on", "h200-sxm"),
    }
    for name, words in commands.items():
        result = command(*words, "--out", str(folder / f"{name}.html"))
        assert result.exit_code == 0, result.output
    return {"many": many, **{path.stem: path for path in sorted(folder.glob("*.html"))}}


def dot(browser: Browser, key: str) -> str:
    """An expression for the first dot of a row."""
    cards: dict[str, Any] = json.loads(browser.ask("document.getElementById('dots').textContent"))
    identity = next(identity for identity, card in cards.items() if card["key"] == key)
    return f"document.getElementById('{identity}')"


def row(key: str) -> str:
    return f"[...document.querySelectorAll('tbody tr')].find(row => row.dataset.key === '{key}')"


def head(column: int) -> str:
    return f"document.querySelector('table').tHead.rows[0].cells[{column}]"


# -- tables -------------------------------------------------------------------------------------------------------


def test_a_click_on_a_heading_sorts_by_value_and_a_third_restores(browser: Browser, many: Path) -> None:
    browser.open(many)
    given = [f"kernel {index}" for index in range(ROWS)]
    by_time = [name for name in given if name != "kernel 7"]
    assert browser.ask(FIRST_CELLS) == given
    for direction, order in (("descending", by_time), ("ascending", by_time[::-1])):
        browser.click(f"{head(1)}.firstChild")
        browser.until(f"{head(1)}.getAttribute('aria-sort') === '{direction}'")
        assert browser.ask(FIRST_CELLS) == [*order, "kernel 7"]  # what is not known comes last
    browser.click(f"{head(1)}.firstChild")
    browser.until(f"{head(1)}.getAttribute('aria-sort') === null")
    assert browser.ask(FIRST_CELLS) == given


def test_the_keyboard_sorts_names_with_numbers_as_people_do(browser: Browser, many: Path) -> None:
    browser.open(many)
    for direction in ("ascending", "descending"):
        browser.ask(f"{head(0)}.firstChild.focus()")
        browser.press("Enter")
        browser.until(f"{head(0)}.getAttribute('aria-sort') === '{direction}'")
    assert browser.ask(FIRST_CELLS)[:3] == ["kernel 39", "kernel 38", "kernel 37"]


def test_the_filter_keeps_rows_with_every_word(browser: Browser, many: Path) -> None:
    browser.open(many)
    browser.ask("document.querySelector('.filter input').focus()")
    browser.type("bound COMPUTE")
    browser.until(f"{SHOWN}.length === {ROWS // 2}")
    assert browser.ask(FIRST_CELLS) == [f"kernel {index}" for index in range(1, ROWS, 2)]
    assert browser.ask("document.querySelector('.filter span').textContent") == f"{ROWS // 2} of {ROWS} rows"
    assert browser.ask("document.querySelectorAll('.filter').length") == 1  # a short table has none


def test_a_long_table_scrolls_in_its_box_under_its_headings(browser: Browser, many: Path) -> None:
    browser.open(many)
    assert browser.ask("(box => box.scrollHeight > box.clientHeight)(document.querySelector('.scroll'))")
    browser.ask("document.querySelector('.scroll').scrollTop = 300")
    top = "(element => element.getBoundingClientRect().top)"
    browser.until(f"{top}({head(0)}) === {top}(document.querySelector('.scroll'))")
    assert browser.ask(f"getComputedStyle({row('kernel 0')}.cells[1]).textAlign") == "right"


# -- charts -------------------------------------------------------------------------------------------------------


def test_a_dot_shows_its_card_and_its_row(browser: Browser, many: Path) -> None:
    browser.open(many)
    assert browser.ask(f"{CARD}.hidden")
    browser.hover(dot(browser, "kernel 12"))
    browser.until(f"!{CARD}.hidden")
    text = browser.ask(f"{CARD}.innerText")
    assert all(words in text for words in ("kernel 12", "AI", "4 FLOP/B", "rate", "13 GFLOP/s", "measured", "13 us"))
    assert browser.ask(f"{row('kernel 12')}.classList.contains('hot')")
    assert browser.ask("document.querySelectorAll('figure title').length") == 0  # no second tooltip
    browser.move(1, 1)
    browser.until(f"{CARD}.hidden")
    assert browser.ask("document.querySelectorAll('.hot, .ring').length") == 0


def test_a_row_lights_its_dot(browser: Browser, many: Path) -> None:
    browser.open(many)
    browser.hover(row("kernel 5"))
    browser.until("document.querySelectorAll('.ring').length === 1")
    assert browser.ask(f"{dot(browser, 'kernel 5')}.querySelector('.ring') !== null")


def test_a_click_on_a_dot_brings_its_row_into_view_even_where_it_was_filtered(browser: Browser, many: Path) -> None:
    browser.open(many)
    browser.ask("document.querySelector('.filter input').focus()")
    browser.type("compute")
    browser.until(f"{row('kernel 38')}.hidden")
    browser.click(dot(browser, "kernel 38"))
    browser.until(f"!{row('kernel 38')}.hidden && {row('kernel 38')}.classList.contains('hot')")
    inside = "(r => { const a = r.getBoundingClientRect(), b = r.closest('.scroll').getBoundingClientRect(); return a.top >= b.top && a.bottom <= b.bottom + 1; })"
    assert browser.ask(f"{inside}({row('kernel 38')})")
    browser.move(1, 1)  # a clicked row stays marked where the pointer goes away
    browser.until(f"{CARD}.hidden")
    assert browser.ask(f"{row('kernel 38')}.classList.contains('hot')")


def test_the_keyboard_goes_from_dot_to_dot(browser: Browser, many: Path) -> None:
    browser.open(many)
    assert browser.ask("document.querySelectorAll('.dot[tabindex=\"0\"]').length") == 1
    browser.ask("document.querySelector('.dot[tabindex=\"0\"]').focus()")
    browser.until(f"{CARD}.innerText.startsWith('kernel 0')")
    browser.press("ArrowRight")
    browser.until(f"{CARD}.innerText.startsWith('kernel 1')")
    assert "measured 2 us" in browser.ask("document.activeElement.getAttribute('aria-label')")
    browser.press("Escape")
    browser.until(f"{CARD}.hidden")


@pytest.mark.parametrize(("name", "key"), [("run", next(iter(KERNELS))), ("reconcile", "softmax_bf16"), ("chart", "softmax")])  # fmt: skip
def test_reports_join_kernels_with_their_rows(browser: Browser, pages: dict[str, Path], name: str, key: str) -> None:
    browser.open(pages[name])
    browser.hover(row(key))
    browser.until("document.querySelectorAll('.ring').length > 0")
    browser.hover(dot(browser, key))
    browser.until(f"!{CARD}.hidden")
    text = browser.ask(f"{CARD}.innerText")
    assert all(words in text for words in (key, "AI", "rate", "predicted [80 %]", "% of roofline", "bound"))


def test_every_case_of_a_sweep_is_joined(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["sweep"])
    assert browser.ask("document.querySelectorAll('tr[data-linked]').length") == 13


# -- every page ---------------------------------------------------------------------------------------------------

NAMES = ("many", "run", "reconcile", "sweep", "import", "chart")


@pytest.mark.parametrize("name", NAMES)
def test_pages_fetch_nothing_and_complain_of_nothing(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    assert browser.requested() == [pages[name].resolve().as_uri()]
    assert browser.complaints() == []
    assert pages[name].stat().st_size < 1_500_000


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_scrolls_pages_in_one_direction_and_texts_stay_legible(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name], 390, 844)
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    sizes = """[...document.querySelectorAll('svg text')].map(text => {
        const svg = text.ownerSVGElement;
        return parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    })"""
    assert all(size > 10.99 for size in browser.ask(sizes))
    texts = "[...document.querySelectorAll('p, td, th, dt, dd, summary, h1, h2, h3')].map(e => parseFloat(getComputedStyle(e).fontSize))"  # fmt: skip
    assert min(browser.ask(texts)) >= 11


def test_the_first_column_stays_while_a_table_scrolls_sideways(browser: Browser, many: Path) -> None:
    browser.open(many, 390, 844)
    left = f"{row('kernel 0')}.cells[0].getBoundingClientRect().left"
    before = browser.ask(left)
    browser.ask("document.querySelector('.scroll').scrollLeft = 60")
    browser.until("document.querySelector('.scroll').scrollLeft > 0")
    assert browser.ask(left) == before


@pytest.mark.parametrize("name", NAMES)
def test_paper_gets_everything(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    browser.ask("document.querySelectorAll('.filter input').forEach(i => { i.value = 'nothing has this'; i.dispatchEvent(new Event('input')); })")  # fmt: skip
    browser.media("print", "dark")
    every = "[...document.querySelectorAll('tbody tr')]"
    visible = "row => row.checkVisibility({contentVisibilityAuto: true}) && row.getBoundingClientRect().height > 0"
    assert browser.ask(f"{every}.filter({visible}).length") == browser.ask(f"{every}.length")
    boxes = "[...document.querySelectorAll('.scroll, figure')].map(e => getComputedStyle(e).overflow + ' ' + getComputedStyle(e).maxHeight)"  # fmt: skip
    assert set(browser.ask(boxes)) <= {"visible none"}
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF")


def test_colours_follow_the_system_and_the_button(browser: Browser, many: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(many)
    light = browser.ask(background)
    browser.media(scheme="dark")
    browser.until(f"{background} !== '{light}'")
    browser.until("document.getElementById('theme').textContent === 'Light'")
    browser.click("document.getElementById('theme')")
    browser.until(f"{background} === '{light}'")
    frame = "getComputedStyle(document.querySelector('figure svg path')).fill"
    assert browser.ask(frame) == light  # charts follow too


def test_without_javascript_nothing_is_missing(browser: Browser, many: Path) -> None:
    browser.open(many, script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)  # asking needs it, the page has run without
    assert browser.ask("document.getElementById('card')") is None
    assert browser.ask(f"{SHOWN}.length") == ROWS
    assert browser.ask("document.querySelectorAll('figure svg .dot, .filter, th button').length") == 0
    assert browser.ask("document.querySelectorAll('figure title').length") == ROWS  # plain tooltips
    assert browser.ask("document.querySelector('summary').textContent") == "More"
