"""Lessons 1 to 7 in Chromium: every exercise done as a person would, with the mouse and with keys, right and wrong."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.needs_browser
PATIENCE = 30  # seconds until a condition that never comes true is a failure; a passing test does not wait
CHECK, NO_CHECK = "**/widgets/check.js", "export default () => {};"
FILLED = "(all => all.length > 0 && all.every(widget => widget.childElementCount > 0))([...document.querySelectorAll('.widget:not([data-widget=check])')])"
WIDTHS = "element => [...element.querySelectorAll('.bar')].map(bar => parseFloat(bar.style.width))"
AXES = "element => { const { x, y } = element.querySelector('.chart').chart; return { x: x.range, y: y.range }; }"
CHART = "element => element.querySelector('.chart').chart"
# where a value of the axes is drawn: Plotly's answer, not the page's
DRAWN = "([element, x, y]) => { const full = element.querySelector('.chart')._fullLayout; return { x: full.xaxis.d2p(x), y: full.yaxis.d2p(y) }; }"


@pytest.fixture
def open_lesson(visit: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A lesson, or the list of them, without its quick checks, which have tests of their own."""

    def opened(place: str, **options: Any) -> Any:
        page = visit("/", **options)
        page.route(CHECK, lambda route: route.fulfill(content_type="text/javascript", body=NO_CHECK))
        page.evaluate("place => { location.hash = place; }", place)
        return page

    yield opened
    visit().unroute(CHECK)


def widget(page: Any, name: str) -> Any:
    element = page.locator(f".widget[data-widget={name}]").first
    element.locator(".said p").first.wait_for()
    return element


def said(element: Any, text: str | re.Pattern[str]) -> None:
    """Wait until the answer has this text."""
    element.locator(".said", has_text=text).wait_for()


def until(holds: Callable[[], Any]) -> None:
    """Ask again until it holds. Playwright's own waiting evaluates text in the page, which the policy of the page forbids."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def plot(element: Any) -> Any:
    box = element.locator(".overlay").bounding_box()
    assert box is not None
    return box


def drag(page: Any, handle: Any, share: float) -> None:
    """Take a slider at its handle and let it go at a share of its length."""
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    low, high, value = (float(handle.evaluate(f"input => input.{name}")) for name in ("min", "max", "value"))
    radius, middle = 8, box["y"] + box["height"] / 2
    at = lambda part: box["x"] + radius + part * (box["width"] - 2 * radius)  # noqa: E731
    page.mouse.move(at((value - low) / (high - low)), middle)
    page.mouse.down()
    page.mouse.move(at(share), middle, steps=6)
    page.mouse.up()


def test_lessons_in_order_with_progress_and_depth(open_lesson):
    page = open_lesson("/lessons")
    page.get_by_role("link", name="Start with the first").click()
    page.get_by_role("heading", level=1, name="A factory with two limits").wait_for()
    short, detail = page.locator("[data-depth=short]").first, page.locator("[data-depth=detail]").first
    assert (short.is_visible(), detail.is_visible()) == (True, False)
    page.get_by_role("radio", name="Reference").check()
    assert (short.is_visible(), detail.is_visible()) == (False, True)
    until(lambda: page.evaluate("location.hash") == "#/lessons/factory?depth=reference")
    widget(page, "factory")
    page.locator(".lesson-turn .next").focus()  # the end of the lesson is in view: it is read
    until(lambda: page.evaluate("JSON.parse(localStorage.getItem('ridgeline-lessons') ?? '{}').factory?.read"))
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="FLOPs, bytes").wait_for()
    assert page.get_by_role("radio", name="Reference").is_checked()
    page.locator(".lesson-turn a[rel=prev]").click()
    page.get_by_role("heading", level=1, name="A factory with two limits").wait_for()
    page.get_by_role("link", name="All lessons").click()
    page.locator(".lessons li.read", has_text="A factory with two limits").wait_for()
    assert page.locator(".lessons li:not(.read)").count() > 0
    page.get_by_role("button", name="Clear progress").click()
    assert page.locator(".lessons li.read").count() == 0


def test_a_widget_that_does_not_exist_or_fails_says_so(open_page):
    page = open_page("/")
    page.route("**/widgets/factory.js", lambda route: route.fulfill(content_type="text/javascript", body="export {};"))
    page.route("**/widgets/readout.js", lambda route: route.fulfill(content_type="text/javascript", body="export default () => { throw new Error('<b>no</b> luck'); };"))  # fmt: skip
    page.goto(page.url.split("#")[0] + "#/lessons/factory")
    page.get_by_text("no exercise called “factory”").wait_for()
    page.get_by_text("<b>no</b> luck").wait_for()  # as text
    page.goto(page.url.split("#")[0] + "#/lessons")
    page.get_by_role("heading", level=1, name="Lessons").wait_for()


def test_the_factory_by_mouse_and_keys(open_lesson):
    page = open_lesson("/lessons/factory")
    factory = widget(page, "factory")
    said(factory, "The belt is the bottleneck")
    assert factory.evaluate(WIDTHS) == [10, 100]
    steps = factory.get_by_role("slider", name="Steps per part")
    drag(page, steps, 1.0)
    said(factory, re.compile("The workers are the bottleneck.*100 steps per part"))
    assert factory.evaluate(WIDTHS) == [100, 10]
    steps.press("Home")
    for _ in range(9):
        steps.press("ArrowRight")
    said(factory, "Break-even: workers and belt")
    assert factory.evaluate(WIDTHS) == [100, 100]
    assert steps.get_attribute("aria-valuetext") == "10"


def test_the_bars_flip_between_product_and_sum(open_lesson):
    counts = widget(open_lesson("/lessons/intensity"), "counts")
    said(counts, "170.7")
    compute, memory = counts.evaluate(WIDTHS)
    assert compute == 100 > 10 > memory
    counts.get_by_role("radio", name="add").check()
    said(counts, "0.083")
    compute, memory = counts.evaluate(WIDTHS)
    assert memory == 100 > 10 > compute
    counts.get_by_role("radio", name="add").press("ArrowUp")  # back by keys
    said(counts, "170.7")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_chart_is_built_in_four_steps(open_lesson, motion):
    page = open_lesson("/lessons/chart", reduced_motion=motion)
    buildup = widget(page, "buildup")
    page.evaluate("() => { window.strokes = 0; const animate = Element.prototype.animate; Element.prototype.animate = function (...given) { window.strokes += 1; return animate.apply(this, given); }; }")  # fmt: skip
    shapes = []
    for step in range(1, 5):
        until(lambda step=step: buildup.get_attribute("data-step") == str(step))
        until(
            lambda step=step: len(buildup.evaluate(CHART)["lines"]) + len(buildup.evaluate(CHART)["marks"]) == step - 1
        )
        shapes.append(buildup.locator("path.js-line").count())
        if step < 4:
            buildup.get_by_role("button", name="Next").click()
    assert shapes == [0, 1, 2, 2]
    assert buildup.get_by_role("button", name="Next").is_disabled()
    assert (page.evaluate("window.strokes") > 0) == (motion == "no-preference")
    buildup.get_by_role("button", name="2 Memory ramp").press("Enter")
    said(buildup, "slope 1")
    buildup.get_by_role("button", name="Back").click()
    said(buildup, "logarithmic")


def test_the_readout_is_the_inverse_of_the_axes(open_lesson):
    page = open_lesson("/lessons/chart")
    readout = widget(page, "readout")
    readout.scroll_into_view_if_needed()
    box, axes = plot(readout), readout.evaluate(AXES)
    for across, up in ((0.2, 0.3), (0.9, 0.6)):
        page.mouse.move(box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"])
        at = float(readout.get_attribute("data-intensity")), float(readout.get_attribute("data-performance"))
        for value, (low, high), share in zip(at, (axes["x"], axes["y"]), (across, up), strict=True):
            assert math.log(value / low) / math.log(high / low) == pytest.approx(share, abs=0.003)
        drawn = readout.evaluate("(element, at) => (" + DRAWN + ")([element, ...at])", list(at))
        assert drawn["x"] == pytest.approx(across * box["width"], abs=1.5)
        assert drawn["y"] == pytest.approx((1 - up) * box["height"], abs=1.5)
    said(readout, "compute-bound side")
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.1 * box["height"])
    said(readout, "no kernel on this machine")
    page.mouse.move(5, 5)


def test_the_readout_by_keys(open_lesson):
    page = open_lesson("/lessons/chart")
    readout = widget(page, "readout")
    surface = readout.locator(".overlay")
    surface.focus()
    surface.press("Home")
    said(readout, "At the ridge")
    before = float(readout.get_attribute("data-intensity"))
    assert before == pytest.approx(312e3 / 2039, rel=1e-3)
    surface.press("Shift+ArrowLeft")
    assert float(readout.get_attribute("data-intensity")) < before
    said(readout, "no kernel on this machine")  # left of the ridge at the height of the peak
    for _ in range(3):
        surface.press("Shift+ArrowDown")
    said(readout, "memory-bound side")


OPERATIONS = [("Matrix multiply", "right"), ("Attention scores", "left"), ("Softmax", "left"), ("LayerNorm", "left"), ("ReLU", "left")]  # fmt: skip


def test_every_operation_is_placed_left_and_right_of_its_ridge(open_lesson):
    page = open_lesson("/lessons/operations", reduced_motion="reduce")
    place = widget(page, "place")
    for name, side in OPERATIONS:
        place.get_by_role("radio", name=name).check()
        said(place, f"Where is {name}")
        assert {point["role"] for point in place.evaluate(CHART)["points"]} == {"ridge"}
        ridge = place.evaluate(CHART)["marks"][0]["value"]
        middle = place.evaluate("(element, at) => (" + DRAWN + ")([element, ...at])", [ridge, 1e12])["x"]
        wrong, right = (middle + 40, middle - 40) if side == "left" else (middle - 40, middle + 40)
        for at, verdict in ((wrong, "Not this side"), (right, "Right")):
            place.locator(".overlay").click(position={"x": at, "y": 90})
            said(place, re.compile(f"^{verdict}: {name}"))
            until(lambda: "expected" in {each["role"] for each in place.evaluate(CHART)["points"]})
            (point,) = [each for each in place.evaluate(CHART)["points"] if each["role"] == "expected"]
            assert (point["x"] < ridge) == (side == "left")
    page.locator(".lesson-score", has_text="0 of 5 answers right").wait_for()  # the first try counts
    place.get_by_role("button", name="Show all of them").click()
    said(place, "4 of 5 are memory-bound")
    assert len([point for point in place.evaluate(CHART)["points"] if point["role"] == "expected"]) == 5


def test_the_dot_travels_to_its_place_and_right_answers_score(open_lesson):
    page = open_lesson("/lessons/operations")
    place = widget(page, "place")
    place.get_by_role("button", name="Right: compute-bound").click()
    said(place, "Right: Matrix multiply")
    until(lambda: "expected" in {each["role"] for each in place.evaluate(CHART)["points"]})
    (point,) = [each for each in place.evaluate(CHART)["points"] if each["role"] == "expected"]
    drawn = place.evaluate("(element, at) => (" + DRAWN + ")([element, ...at])", [point["x"], point["y"]])
    dot = place.locator(".spot.moving").evaluate("spot => [parseFloat(spot.style.left), parseFloat(spot.style.top)]")
    assert dot == pytest.approx([drawn["x"], drawn["y"]], abs=1.5)
    place.get_by_role("radio", name="ReLU").check()
    said(place, "Where is ReLU")
    place.locator(".overlay").press("ArrowLeft")
    said(place, "Right: ReLU")
    page.locator(".lesson-score", has_text="2 of 5 answers right").wait_for()
    page.reload()
    page.locator(".lesson-score", has_text="2 of 5 answers right").wait_for()


def test_phases_side_by_side(open_lesson):
    page = open_lesson("/lessons/prefill-decode")
    phases = widget(page, "phases")
    said(phases, "projection and mlp are compute-bound in prefill and memory-bound in decode")
    phases.locator(".chart").nth(1).wait_for()
    boxes = [frame.bounding_box() for frame in phases.locator(".chart").all()]
    assert len(boxes) == 2
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    cells = phases.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells == ["projection", "410", "compute", "1", "memory"]
    phases.get_by_role("slider", name="Prompt").press("Home")
    said(phases, "No operation is compute-bound in prefill with a prompt of 16")


def test_the_roof_moves_with_compute_and_bandwidth(open_lesson):
    page = open_lesson("/lessons/roof")
    roof = widget(page, "roof")
    ridge = lambda: float(roof.get_attribute("data-ridge"))  # noqa: E731
    compute, bandwidth = (roof.get_by_role("slider", name=name) for name in ("Compute", "Bandwidth"))
    base = ridge()
    drag(page, compute, 1.0)
    said(roof, "Ridge moves right: 612 FLOP/B instead of 153 FLOP/B (4x).")
    assert ridge() == pytest.approx(4 * base)
    compute.press("Home")
    for _ in range(3):
        compute.press("ArrowRight")
    bandwidth.press("End")
    said(roof, "Ridge moves left: 38.3 FLOP/B instead of 153 FLOP/B (0.25x).")
    until(lambda: roof.evaluate(CHART)["marks"][0]["value"] < 50)
    (ramp,) = [line for line in roof.evaluate(CHART)["lines"] if line["role"] == "bandwidth"]
    ends = [roof.evaluate("(element, at) => (" + DRAWN + ")([element, ...at])", spot) for spot in ramp["points"]]
    rise = (ends[0]["y"] - ends[1]["y"]) / (ends[1]["x"] - ends[0]["x"])  # equal decades: 45 degrees
    assert rise == pytest.approx(1, abs=0.05)


def test_generations_as_cards(open_lesson):
    page = open_lesson("/lessons/roof")
    card = page.locator(".generation[data-machine=h100-sxm]")
    card.get_by_text("gains more: prefill").wait_for()
    assert "3.17x" in card.inner_text()
    assert "295 FLOP/B" in card.inner_text()
    assert page.locator(".generation").count() == 3


def test_the_batch_crosses_the_ridge_or_never(open_lesson):
    page = open_lesson("/lessons/batch")
    batch = widget(page, "batch")
    slider, signal = batch.get_by_role("slider", name="Batch"), batch.locator(".signal")
    assert batch.get_attribute("data-crossing") == "166"
    drag(page, slider, 164 / 511)  # near the crossing; the last steps by keys
    while int(slider.input_value()) + 1 != 165:
        slider.press("ArrowRight" if int(slider.input_value()) + 1 < 165 else "ArrowLeft")
    said(batch, "Batch 165:")
    said(batch, "left of the ridge: memory-bound")
    slider.press("ArrowRight")
    said(batch, "right of the ridge: compute-bound")
    signal.get_by_text("Crossed the ridge: compute-bound").wait_for()
    batch.get_by_role("radio", name="h100-sxm").check()
    said(batch, "Compute-bound at batch >= 346")
    said(batch, "left of the ridge: memory-bound")
    assert signal.is_hidden()
    slider.press("End")
    signal.get_by_text("Crossed the ridge").wait_for()
    batch.get_by_role("radio", name="256 × 256").check()
    said(batch, "Never crosses the ridge")
    assert batch.get_attribute("data-crossing") == "never"


def test_what_is_set_in_an_exercise_is_in_the_address(open_lesson, open_page):
    page = open_lesson("/lessons/roof")
    roof = widget(page, "roof")
    roof.get_by_role("slider", name="Compute").press("End")
    said(roof, "Ridge moves right")
    page.get_by_role("radio", name="Reference").check()
    until(lambda: page.evaluate("location.hash") == "#/lessons/roof?roof.compute=4&depth=reference")
    seen = roof.locator(".said").inner_text()
    other = open_page(page.url.partition("#")[2])
    assert widget(other, "roof").locator(".said").inner_text() == seen
    assert other.get_by_role("radio", name="Reference").is_checked()
    roof.get_by_role("slider", name="Compute").press("Home")
    for _ in range(3):
        roof.get_by_role("slider", name="Compute").press("ArrowRight")
    until(lambda: page.evaluate("location.hash") == "#/lessons/roof?depth=reference")  # what is as at first is left out


SETTINGS = [
    ("factory?factory.steps=40", "factory", "The workers are the bottleneck"), ("intensity?counts.case=1", "counts", "0.083"),
    ("chart?buildup.step=2", "buildup", "slope 1"), ("prefill-decode?phases.prompt=16", "phases", "with a prompt of 16"),
    ("batch?batch.size=512&batch.layer=2", "batch", "Batch 512"), ("precision?precision.weights=true&precision.format=int4_g128", "precision", "closer to its ridge"),
    ("hierarchy-and-tiling?levels.tile=4", "levels", "memory-bound"), ("hierarchy-and-tiling?tiling.tile=256", "tiling", "T = 256"),
    ("two-gaps?stages.stage=3", "stages", "pipelined: "), ("energy?energy.textbook=true&energy.intensity=0.25", "energy", "AI 0.25"),
    ("communication?communication.tokens=8388608&communication.devices=64", "communication", "64 GPUs"),
    ("roof?roof.compute=<b>&roof.bandwidth=99", "roof", "153 FLOP/B"), ("factory?factory.steps=41&nonsense=1", "factory", "The belt is the bottleneck"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "name", "text"), SETTINGS)
def test_a_link_restores_an_exercise(open_lesson, place, name, text):
    said(widget(open_lesson(f"/lessons/{place}"), name), text)


@pytest.mark.parametrize("slug", ["factory", "operations", "roof"])
def test_lessons_fit_a_phone(open_lesson, slug):
    page = open_lesson(f"/lessons/{slug}", width=390, color_scheme="dark")
    until(lambda: page.evaluate(FILLED))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_skip_link_keeps_the_view_and_each_view_has_a_title(visit):
    page = visit("/lessons")
    page.get_by_role("heading", level=1, name="Lessons").wait_for()
    page.locator("a.skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "view"
    assert page.url.endswith("#/lessons")
    assert page.get_by_role("heading", level=1, name="Lessons").is_visible()
    assert page.title() == "Lessons · ridgeline"


def test_a_slow_answer_is_waited_for_visibly(visit):
    page = visit("/lessons")
    held = []
    page.route("**/api/lessons/factory", lambda route: held.append(route))
    page.goto(page.url.split("#")[0] + "#/lessons/factory")
    page.locator("#waiting").get_by_text("computing").wait_for()
    held[0].continue_()
    page.locator("#waiting").wait_for(state="hidden")
    page.unroute("**/api/lessons/factory")
