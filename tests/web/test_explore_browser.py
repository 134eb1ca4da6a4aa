"""The explorer's rooflines and comparison as a person uses them: mouse, keys, links, files."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

pytestmark = pytest.mark.needs_browser

DOT = "[...document.querySelectorAll('.shown .chart')[0].chart.points].find((point) => point.case)"
HOSTILE = "<img src=x onerror=window.hacked=1>"


def until(page, expression):
    """Waits for an expression to be true; the page's policy forbids the browser to evaluate texts on its own."""
    for _ in range(1500):
        if page.evaluate(f"Boolean({expression})"):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never true: {expression}")


def place_of_dot(page):
    until(page, f"document.querySelector('.shown .chart')?.chart && {DOT}")
    return page.evaluate(f"{DOT}.x")


def moved(page, before):
    until(page, f"{DOT}.x !== {before}")
    return place_of_dot(page)


def address_settles(page, text):
    until(page, f"decodeURIComponent(location.hash).includes({json.dumps(text)})")


def test_a_question_leads_to_a_dot_that_follows_mouse_keys_and_numbers(visit):
    page = visit()
    page.get_by_role("link", name="Will my kernel be memory- or compute-bound?").click()
    at = place_of_dot(page)
    slider = page.get_by_role("slider", name="m", exact=True)
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.38, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, middle, steps=4)
    assert moved(page, at) > at  # while the button is still down
    page.mouse.up()
    address_settles(page, '"m":8192')
    until(
        page, "document.querySelector('.shown .chart').chart.points.some((point) => point.name.includes('gemm 8192x'))"
    )
    dragged = place_of_dot(page)
    slider.press("ArrowLeft")
    assert moved(page, dragged) < dragged
    address_settles(page, '"m":4096')
    exact = page.get_by_role("textbox", name="m, exact value")
    exact.fill("100")
    address_settles(page, '"m":100')
    exact.fill("-3")
    page.get_by_role("alert").filter(has_text="m: must be a whole number of at least 1").wait_for()
    assert page.locator(".shown .chart .point").count()  # the last good chart stays
    exact.fill("128")
    until(page, "!document.querySelector('[role=alert]')")


MOVING = """() => {
  const frame = document.querySelector('.shown .chart'), layer = frame._fullLayout;
  const drawn = [...frame.querySelectorAll('.scatterlayer .point')].map((dot) => dot.getBoundingClientRect());
  const box = frame.getBoundingClientRect();
  return frame.chart.points.map((point) => {
    const x = box.x + layer.xaxis._offset + layer.xaxis.d2p(point.x), y = box.y + layer.yaxis._offset + layer.yaxis.d2p(point.y);
    return Math.min(...drawn.map((dot) => Math.hypot(dot.x + dot.width / 2 - x, dot.y + dot.height / 2 - y)));
  });
}"""


@pytest.mark.parametrize("machines", ["h100-sxm", "a100-sxm-80gb,h100-sxm,b200-sxm"])
def test_a_dragged_dot_moves_on_axes_that_stay_and_is_drawn_in_full_at_rest(visit, machines):
    page = visit(f"/explore?machines={machines}")
    place_of_dot(page)
    exact = page.get_by_role("textbox", name="m, exact value")
    exact.fill("1")  # the axes now reach as far to the left as they must
    until(page, f"{DOT}.name.includes('gemm 1x') || {DOT}.name === 'gemm 1x4096x4096'")
    axes = "JSON.stringify([document.querySelector('.shown .chart').chart.x.range, document.querySelector('.shown .chart').chart.y.range])"
    page.evaluate(
        "window.drawings = 0; const react = Plotly.react; Plotly.react = (...all) => { window.drawings += 1; return react(...all); }; undefined"
    )
    before = page.evaluate(axes)
    for size in (2, 8, 64, 512):
        exact.fill(str(size))
        until(page, f"{DOT}.name.includes('gemm {size}x')")
        assert page.evaluate(axes) == before
        assert max(page.evaluate(MOVING)) < 1.5  # pixels between every dot and its place
    until(page, "window.drawings > 0")
    assert max(page.evaluate(MOVING)) < 1.5
    # another op or machine is a new picture, whose axes fit it
    page.get_by_role("combobox", name="Ceilings").select_option("stated")
    until(page, f"{axes} !== {json.dumps(before)}")


def test_a_link_restores_everything_and_a_dot_opens_its_card(open_page, visit):
    page = visit("/explore?machines=a100-sxm-80gb,h200-sxm")
    place_of_dot(page)
    page.locator("tr.pick").nth(1).click()
    page.get_by_role("checkbox", name="batch x8").check()
    page.get_by_role("heading", name="The chain").wait_for()
    page.get_by_role("combobox", name="Ceilings").select_option("stated")
    address_settles(page, "ceilings=stated")
    until(page, "document.querySelector('.card h2')?.textContent.includes('stated')")
    shared = page.url.partition("#")[2]
    seen = page.locator(".answer").inner_text(), page.locator(".card .verdict").inner_text()
    other = open_page(shared, width=390, color_scheme="dark")
    other.get_by_role("heading", name="The chain").wait_for()
    assert (other.locator(".answer").inner_text(), other.locator(".card .verdict").inner_text()) == seen
    assert other.get_by_role("checkbox", name="batch x8").is_checked()
    assert other.url.partition("#")[2] == shared
    assert other.evaluate("document.documentElement.scrollWidth") <= 390


def test_keys_alone_add_a_machine_and_an_op_and_remove_them(visit):
    page = visit("/explore")
    place_of_dot(page)
    page.get_by_role("combobox", name="Add to machines").focus()
    page.keyboard.type("mi300x")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Remove mi300x").wait_for()
    page.get_by_role("combobox", name="Add an op").focus()
    page.keyboard.type("softmax")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('tr.pick').length === 4")  # two ops on two machines
    page.keyboard.press("ArrowRight")  # the first slider of the new op has the focus
    address_settles(page, '"rows":8192')
    page.get_by_role("button", name="Remove softmax").press("Enter")
    until(page, "document.querySelectorAll('tr.pick').length === 2")


def test_files_are_saved_and_the_page_among_them_opens_without_a_network(open_page, tmp_path):
    page = open_page("/explore")
    place_of_dot(page)
    saved = {}
    for form in ("PNG", "SVG", "CSV", "JSON", "HTML"):
        with page.expect_download() as download:
            page.get_by_role("button", name=form, exact=True).click()
        saved[form] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[form])
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in saved["SVG"].read_text()
    assert saved["CSV"].read_text().startswith("case,time_us")
    assert json.loads(saved["JSON"].read_text())["rows"][0]["op"] == "gemm"
    page.context.set_offline(True)
    page.goto(saved["HTML"].as_uri())
    assert "of roofline" in page.locator("main").inner_text()
    assert page.locator("svg").count()


def test_names_from_an_address_stay_text(visit):
    cases = quote(json.dumps([{"op": HOSTILE, "values": {HOSTILE: HOSTILE}}]))
    page = visit(f"/explore?machines={quote(HOSTILE)}&cases={cases}&chosen=[0,0]&do={quote(HOSTILE)}")
    page.get_by_role("alert").first.wait_for()
    assert page.get_by_role("heading", name=HOSTILE).count() == 1
    assert page.evaluate("window.hacked") is None


def test_a_comparison_answers_with_factors_of_pasted_cases(visit):
    page = visit("/compare?machines=h100-sxm,h200-sxm")
    page.get_by_text("run").first.wait_for()
    page.get_by_text("Paste ops").click()
    page.locator("textarea").fill("op,m,n,k,dtype\ngemm,1,4096,4096,bf16\n")
    page.get_by_text("this op runs").wait_for()
    page.get_by_role("cell", name="gemm m=1 n=4096 k=4096 bf16").wait_for()
    assert not page.get_by_role("slider", name="m", exact=True).count()  # the pasted ops take the place of the sliders
    page.locator("textarea").fill("gemm m=0 n=1 k=1")
    page.get_by_role("alert").filter(has_text="m: must be").wait_for()
    page.locator("textarea").fill("")
    page.get_by_text("these 4 ops run").wait_for()
    assert page.get_by_role("slider", name="m", exact=True).count() == 2


def test_a_comparison_follows_sliders_swaps_and_restores_from_its_link(open_page, visit):
    page = visit("/compare?machines=h100-sxm,h200-sxm")
    page.get_by_text("these 4 ops run").wait_for()
    until(page, "document.querySelector('.shown .chart')?.chart?.points.length")
    axes = "JSON.stringify(document.querySelector('.shown .chart').chart.x.range)"
    before = page.evaluate(axes)
    page.get_by_role("slider", name="m", exact=True).first.press("ArrowLeft")
    page.get_by_role("cell", name="gemm m=2048 n=4096 k=4096 bf16").wait_for()
    assert page.evaluate(axes) == before  # dots move on axes that stay
    page.get_by_role("combobox", name="dtype").first.select_option("fp16")
    page.get_by_role("cell", name="gemm m=2048 n=4096 k=4096 fp16").wait_for()
    page.get_by_role("button", name="Remove softmax").click()
    page.get_by_text("these 3 ops run").wait_for()
    page.get_by_role("button", name="Swap").click()
    page.get_by_text("as fast on h100-sxm as on h200-sxm").wait_for()
    address_settles(page, "machines=h200-sxm,h100-sxm")
    shared, seen = page.url.partition("#")[2], page.locator(".answer").inner_text()
    page.go_back()
    page.get_by_text("as fast on h200-sxm as on h100-sxm").wait_for()
    other = open_page(shared)
    other.get_by_text("these 3 ops run").wait_for()
    assert other.locator(".answer").inner_text() == seen
