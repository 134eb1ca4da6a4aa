"""The exercises of lessons 8 to 14 as a person does them: clicks, keys, right and wrong answers."""

import pytest

from ridgeline.app.web.answers.exercises_drill import _drawn

pytestmark = pytest.mark.needs_browser


def _widget(page, name):
    element = page.locator(f'[data-widget="{name}"]').first
    element.locator("input, button").first.wait_for()
    return element


def _said(element, text):
    element.locator("output", has_text=text).first.wait_for()


def test_formats_shrink_bytes_and_move_the_ridge(visit):
    element = _widget(visit("/lessons/precision"), "precision")
    element.get_by_role("radio", name="int4").check()
    _said(element, "fp32 to int4: 8x faster at the roofline, and 8x further from its ridge")
    element.get_by_role("radio", name="the weights alone").check()
    element.get_by_role("radio", name="int4_g128").check()
    _said(element, "closer to its ridge")


def test_tiles_move_the_dots_of_levels(visit):
    page = visit("/lessons/hierarchy-and-tiling")
    levels, tiling = _widget(page, "levels"), _widget(page, "tiling")
    _said(levels, "compute-bound")
    levels.get_by_role("slider").press("Home")
    _said(levels, "memory-bound")
    _said(tiling, "T = 8: AI 1.998")
    tiling.get_by_role("slider").press("End")
    _said(tiling, "T = 256: AI 62.06")
    assert tiling.get_attribute("data-bound") == "compute"


def test_regimes_are_predicted_before_anything_is_shown(visit):
    page = visit("/lessons/three-regimes")
    element = _widget(page, "regimes")
    assert not element.locator("output p").count()
    truth = ["compute", "memory", "memory", "overhead"]
    for number, guess in enumerate(["compute", "memory", "compute", "overhead"]):
        case = element.locator(".regime-case").nth(number)
        case.get_by_role("button", name=f"{guess}-bound").press("Enter")
        _said(case, "Right" if guess == truth[number] else "Not compute-bound: memory-bound")
        _said(case, "Gap: ")
        assert case.locator("output").get_attribute("data-bound") == truth[number]
    element.get_by_text("3 of 4 right at the first try").wait_for()
    element.locator(".chart .point").first.wait_for()
    page.get_by_text("3 of 4 answers right in this lesson").wait_for()


def test_the_roof_that_applies_switches_at_the_crossing(visit):
    element = _widget(visit("/lessons/two-gaps"), "stages")
    roofs = []
    for stage in ("naive", "tiled", "pipelined"):
        element.get_by_role("button", name=stage).click()
        _said(element, f"{stage}: ")
        roofs.append(element.get_attribute("data-roof"))
        _said(element, "horizontal gap")
        _said(element, "vertical gap")
    assert roofs == ["memory", "compute", "compute"]
    assert element.locator("ol li").count() == 5


def test_energy_and_communication_follow_their_sliders(visit):
    page = visit("/lessons/energy")
    element = _widget(page, "energy")
    element.get_by_label("textbook").check()
    _said(element, "equal at 66.7 FLOP/B")
    element.get_by_role("slider").press("Home")
    _said(element, "AI 0.25")
    page = visit("/lessons/communication")
    element = _widget(page, "communication")
    _said(element, "8 GPUs over NVLink: 7,022 FLOP/B, above the ridge at 1,040")
    element.get_by_label("100 Gbit/s NIC", exact=True).check()
    _said(element, "communication-bound")
    element.get_by_label("Tokens per step").press("End")
    _said(element, "compute-bound")


@pytest.mark.parametrize("right", [True, False])
def test_quick_checks_are_scored_and_explained(visit, right):
    page = visit("/lessons/energy")
    element = _widget(page, "check")
    element.get_by_role("button", name="Half of it" if right else "All of it").click()
    _said(element, "Right." if right else "The answer is: Half of it")
    element.get_by_role("button", name="A tenth of it").click()
    _said(element, "Not quite")
    page.get_by_text(f"{int(right)} of 1 answers right in this lesson").wait_for()


def test_the_drill_is_done_with_keys_alone_and_scored(visit):
    page = visit("/lessons/drill?seed=7")
    element = _widget(page, "drill")
    page.clock.install()
    element.get_by_role("button").focus()
    page.keyboard.press("Enter")
    for number in range(6):
        page.locator(f'[data-widget="drill"][data-number="{number}"]').wait_for()
        kind, question, truth = _drawn(7, number)
        element.locator(".drill-card", has_text=question).wait_for()
        if kind == "regime":
            page.keyboard.press(truth[0][0])
        elif number == 3:
            page.keyboard.type("abc")
            page.keyboard.press("Enter")
            _said(element, "not a number")
            page.keyboard.press("Control+a")
            page.keyboard.type("100000")
            page.keyboard.press("Enter")
        else:
            page.keyboard.type(f"{truth[0] * 1.25:.4g}")
            page.keyboard.press("Enter")
        element.locator(".drill-log li").nth(number).wait_for()
    page.clock.fast_forward(31_000)
    _said(element, "Time is up: 5 of 6 right.")
    page.get_by_text("5 of 6 answers right in this lesson").wait_for()


# the exercise of a lesson, where it is not called like the lesson
WIDGETS = {"hierarchy-and-tiling": "levels", "three-regimes": "regimes", "two-gaps": "stages"}


@pytest.mark.parametrize("slug", ["precision", "hierarchy-and-tiling", "three-regimes", "two-gaps", "energy", "communication", "drill"])  # fmt: skip
def test_lessons_fit_a_phone(visit, slug):
    page = visit(f"/lessons/{slug}", width=390, height=844, color_scheme="dark")
    _widget(page, WIDGETS.get(slug, slug))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
