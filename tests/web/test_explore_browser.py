"""The explorer's rooflines and comparison as a person uses them."""

import pytest

pytestmark = pytest.mark.needs_browser


def test_the_page_opens_on_questions(open_page):
    page = open_page()
    page.get_by_role("link", name="Will my kernel be memory- or compute-bound?").click()
    page.wait_for_selector(".chart .point")
