"""Every picture of the docs is what the command printed in the docs draws."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from make_pictures import IMAGES, PAGES, all_commands, drawn, images  # noqa: E402

CHARTS_PAGE = ROOT / "docs" / "use" / "charts.md"
MAKERS = all_commands()
NUMBER = re.compile(r"-?\d+\.\d+")
HASH = re.compile(r"\b[mpC][0-9a-f_]{9,}\b")  # ids that matplotlib makes from coordinates


def test_every_picture_of_the_charts_page_is_below_the_command_that_makes_it() -> None:
    shown = images(CHARTS_PAGE)
    assert len(shown) > 25
    assert [(image, made) for image, made in shown if image != made] == []


def test_every_picture_that_a_page_shows_has_a_command() -> None:
    shown = {image for page in PAGES for image, _ in images(page)}
    assert shown == set(MAKERS) == {path.name for path in IMAGES.glob("*.svg")}


@pytest.mark.parametrize("name", MAKERS)
def test_the_picture_is_what_its_command_draws(name: str) -> None:
    """`python docs/make_pictures.py` draws them again; coordinates may differ in the last digits between machines."""
    kept = HASH.sub("id", (IMAGES / name).read_text(encoding="utf-8"))
    with drawn(name, MAKERS[name]) as path:
        fresh = HASH.sub("id", path.read_text(encoding="utf-8"))
    assert NUMBER.sub("#", fresh) == NUMBER.sub("#", kept)
    numbers = zip(NUMBER.findall(fresh), NUMBER.findall(kept), strict=True)
    assert all(abs(float(one) - float(other)) < 0.1 for one, other in numbers)


def test_the_first_picture_of_the_readme_names_the_planted_faults_and_their_causes() -> None:
    assert images(ROOT / "README.md")[0][0] == "faults.svg"
    text = " ".join(re.findall(r">([^<>]+)</text>", (IMAGES / "faults.svg").read_text(encoding="utf-8")))
    causes = {
        "naive_gemm": "no tiling",
        "fp32_gemm": "no tensor cores",
        "spills": "register spills",
        "low_occupancy": "low occupancy",
        "tiny_kernels": "tiny kernels",
        "unfused.norm": "unfused adjacent kernels",
        "uncoalesced_copy": "uncoalesced access",
        "bank_conflicts": "shared-memory bank conflicts",
    }
    missing = [name for name, cause in causes.items() if not re.search(rf"\b{name} \({cause}\) [\d.]+ %", text)]
    assert not missing, text
