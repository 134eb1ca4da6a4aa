"""How every view looks, in light, dark and phone width: contrast, names of controls, labels that keep clear of each other, no sideways scroll."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from amount import some
from ridgeline.app.web.lesson import index

pytestmark = pytest.mark.needs_browser
LOOKS = Path(__file__).with_name("looks.js").read_text(encoding="utf-8")
OPS = quote(json.dumps([{"op": "gemm", "values": {"m": 64, "n": 4096, "k": 4096}}, {"op": "softmax", "values": {"rows": 4096, "cols": 4096}}]))  # fmt: skip
FOUR = "a100-sxm-80gb,h100-sxm,b200-sxm,mi300x"
VIEWS = {
    "home": "/", "one machine": "/explore?chosen=[0,0]", "four machines": f"/explore?machines={FOUR}&cases={OPS}&chosen=[1,1]",
    "levels": f"/explore?levels=1&cases={OPS}", "file": "/profile", "kernels": "/profile?example=kernels&kernel=0",
    "faults": "/profile?example=faults&kernel=1", "training": "/profile?example=training", "model": "/model", "compare": "/compare",
    "lessons": "/lessons",
}  # fmt: skip
PLACES = {
    **VIEWS,
    **{entry.slug: f"/lessons/{entry.slug}?depth=reference" for entry in some(index(), 4)},
}  # which share their styles
PHONE = {"width": 390, "height": 844}
# the page's own settling: nothing asked, everything that was promised is there
WAITING = """() => !document.querySelector("#view > div")?.childElementCount || [...document.querySelectorAll(".widget")].some((each) => !each.childElementCount)
  || [...document.querySelectorAll("[data-charts] .chart")].some((each) => !each.querySelector("svg"))
  || [...document.querySelectorAll(".js-plotly-plot")].some((each) => each.clientWidth && each._fullLayout.width !== each.clientWidth) || !(INKED)()"""
# charts are drawn again in the colours of a theme
INKED = """() => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--rl-ink)";
  const ink = getComputedStyle(probe).color;
  probe.remove();
  return [...document.querySelectorAll(".js-plotly-plot .xtick text")].every((text) => getComputedStyle(text).fill === ink);
}"""
RING = """() => [...document.querySelectorAll(".js-plotly-plot .point")].filter((dot) => parseFloat(dot.style.strokeWidth) >= 3).map((dot) => {
  const probe = document.createElement("i");
  probe.style.color = "var(--rl-ink)";
  document.body.append(probe);
  const ink = getComputedStyle(probe).color;
  probe.remove();
  return getComputedStyle(dot).stroke === ink;
})"""


def settled(page):
    """Wait until the view and its charts are there; in a tab that is shared the network may be idle before anything is asked."""
    page.wait_for_load_state("networkidle")
    charted = any(part in page.url for part in ("/explore", "/compare", "/model", "example="))
    for _ in range(1500):
        drawn = not charted or page.evaluate("document.querySelector('.js-plotly-plot .xtick') !== null")
        if drawn and not page.evaluate(WAITING.replace("INKED", INKED)):
            return
        page.wait_for_timeout(20)
    raise AssertionError("the view was never complete")


def until(page, expression, expected):
    for _ in range(1500):
        if page.evaluate(expression) == expected:
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"{page.evaluate(expression)}, and not {expected}")


def complaints(page, *kinds):
    return [
        f"{kind}: {text}" for kind in kinds for text in page.evaluate(f"(kind) => ({LOOKS})[kind]()", kind)
    ]  # fmt: skip


def lasting(page, *kinds):
    """What is still complained about when charts have been drawn again, which change texts and ground one after the other."""
    for _ in range(100):
        found = complaints(page, *kinds)
        if not found:
            break
        page.wait_for_timeout(50)
    return found


def test_the_button_leaves_the_theme_of_the_system_at_once(visit):
    """Where the system asks for dark, the first click chose dark again, and the button offered what was there."""
    page = visit("/")
    settled(page)
    page.evaluate("localStorage.removeItem('ridgeline-theme'); delete document.documentElement.dataset.theme")
    page.emulate_media(color_scheme="dark")
    until(page, "document.getElementById('theme').textContent", "light")
    page.click("#theme")
    until(page, "document.documentElement.dataset.theme", "light")
    until(page, "document.getElementById('theme').textContent", "dark")
    page.evaluate("localStorage.removeItem('ridgeline-theme'); delete document.documentElement.dataset.theme")


@pytest.mark.parametrize("name", PLACES)
def test_a_view_is_legible_in_both_themes_and_fits_a_phone(visit, name):
    page = visit(PLACES[name])
    settled(page)
    assert complaints(page, "nameless", "crowded", "wide", "faint") == []
    page.emulate_media(color_scheme="dark")
    settled(page)
    assert lasting(page, "faint") == []
    page.set_viewport_size(PHONE)
    settled(page)
    assert complaints(page, "crowded", "wide") == []


def test_what_looks_wrong_is_seen(visit):
    """Every check of this file complains about a page made to fail it."""
    page = visit("/explore")
    settled(page)
    page.evaluate("""() => {
      const text = document.createElement("p"), field = document.createElement("input"), broad = document.createElement("div");
      text.style.cssText = "color: #999; background: #fff";
      text.textContent = "faint";
      field.placeholder = "no name";
      broad.style.cssText = "width: 3000px; height: 1px";
      document.querySelector("#view").append(text, field, broad);
      document.querySelectorAll(".chart .annotation text").forEach((each) => { each.setAttribute("transform", "translate(-2000, 0)"); });
    }""")
    found = {kind: complaints(page, kind) for kind in ("faint", "nameless", "crowded", "wide")}
    assert all(found.values()), found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["/explore?chosen=[0,0]", "/profile?example=faults&kernel=1"])
def test_the_chosen_dot_has_a_ring(visit, place, scheme):
    page = visit(place, color_scheme=scheme)
    settled(page)
    until(page, RING, [True])
    if place.startswith("/explore"):
        page.get_by_role("slider", name="m", exact=True).press("ArrowRight")
        until(
            page,
            "document.querySelector('.shown .chart').chart.points.some((point) => point.name.includes('gemm 128x'))",
            True,
        )
        assert page.evaluate(RING) == [True]  # it stays on a dot that moves
        page.get_by_role("button", name="Close the card").click()
        until(page, RING, [])


@pytest.mark.parametrize("place", ["/explore", "/compare", "/model"])
def test_on_a_phone_the_chart_comes_before_the_form(visit, place):
    page = visit(place, width=390, height=844)
    settled(page)
    top = lambda selector: page.locator(selector).first.bounding_box()["y"]  # noqa: E731
    assert top(".answer") < top(".chart") < top("input[type=range]") < top("table")
    assert top(".answer") < 844 / 2


@pytest.mark.parametrize("place", ["/explore", "/compare"])
def test_on_a_phone_the_chart_stays_in_sight_of_the_sliders(visit, place):
    page = visit(place, width=390, height=844)
    settled(page)
    page.locator("input[type=range]").last.evaluate("(slider) => scrollBy(0, slider.getBoundingClientRect().top - 780)")
    frame = page.locator(".shown .chart").bounding_box()
    assert frame["y"] >= 0
    assert frame["y"] + frame["height"] < page.locator("input[type=range]").last.bounding_box()["y"]


def test_messages_move_nothing(visit):
    page = visit("/explore")
    settled(page)
    place = lambda: page.locator(".shown .chart").bounding_box()  # noqa: E731
    before, height = place(), page.evaluate("document.documentElement.scrollHeight")
    page.get_by_role("textbox", name="m, exact value").fill("-3")
    page.get_by_role("alert").wait_for()
    assert place() == before
    page.get_by_role("textbox", name="m, exact value").fill("64")
    with page.expect_download():
        page.get_by_role("button", name="CSV", exact=True).click()
    page.locator("#status", has_text="CSV saved").wait_for()
    assert (place(), page.evaluate("document.documentElement.scrollHeight")) == (before, height)
    box = page.locator("#status").bounding_box()
    assert box["y"] + box["height"] < 860  # seen without scrolling


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_whatever_has_the_focus_shows_it(visit, scheme):
    page = visit("/explore?chosen=[0,0]", color_scheme=scheme)
    settled(page)
    seen = 0
    for _ in range(80):
        page.keyboard.press("Tab")
        focus = page.evaluate("""() => {
          const element = document.activeElement, style = getComputedStyle(element);
          return element === document.body ? null : [element.outerHTML.slice(0, 80), style.outlineStyle, parseFloat(style.outlineWidth), element.getBoundingClientRect().left];
        }""")
        if focus is None:
            break
        seen += 1
        assert focus[1] != "none", focus
        assert focus[2] >= 2, focus
        assert focus[3] >= 0, focus
    assert seen > 20


def test_a_lesson_on_a_phone_shows_its_table_and_its_menu_without_scrolling(visit):
    page = visit("/lessons/operations", width=390, height=844)
    settled(page)
    tables = page.evaluate(
        "[...document.querySelectorAll('.lesson .scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    )
    assert tables
    assert max(tables) <= 0
    assert (
        len(page.evaluate("[...new Set([...document.querySelectorAll('header nav a')].map((link) => link.offsetTop))]"))
        == 1
    )
