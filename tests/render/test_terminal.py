"""Charts as text for the terminal."""

from __future__ import annotations

import re

import pytest

import ridgeline as rl
from pictures import A100, crowd, picture
from ridgeline.render.charts import CHARTS
from ridgeline.render.draw import terminal


def test_terminal_has_axes_roofs_ridge_captions_and_a_legend() -> None:
    shown = terminal.draw(picture(dtype="fp32"), 90, 20)
    for expected in (
        "memory-bound",
        "compute-bound",
        "ridge 9.56 FLOP/B",
        "arithmetic intensity (FLOP/B)",
        "performance (FLOP/s)",
        "HBM 2.04 TB/s",
        "gemm 4096³",
        "10 TFLOP/s",
        "└",
    ):
        assert expected in shown
    assert any(0x2800 < ord(letter) <= 0x28FF for letter in shown)
    assert "\x1b" not in shown


def test_plain_ascii_is_ascii_and_slopes_up_one_roof() -> None:
    shown = terminal.draw(picture(dtype="fp32"), 80, 20, ascii=True)
    assert shown.isascii()
    rows = [line for line in shown.splitlines() if "|" in line]
    inside = [line.split("|", 1)[1] for line in rows]
    slanted = [line.index("/") for line in inside if "/" in line]
    assert len(slanted) > 5
    assert slanted == sorted(slanted, reverse=True)  # lower rows stand farther left
    assert any("-----" in line for line in inside)


def test_colour_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in terminal.draw(picture(), colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal.draw(picture(), colour=True)) == terminal.draw(picture())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in terminal.draw(picture(), colour=True)


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("width", [40, 80, 132])
@pytest.mark.parametrize("plain", [True, False])
def test_every_chart_fits_the_terminal(name: str, width: int, plain: bool) -> None:
    machine = rl.machine("h200-sxm") if name == "energy" else A100
    shown = terminal.draw(picture(name, machine), width, 12, ascii=plain)
    widest = max(shown.splitlines(), key=len)
    assert len(widest) <= width, widest
    assert shown.isascii() or not plain


def test_no_number_is_cut_in_half_on_a_narrow_terminal() -> None:
    chart = picture("roofline")
    narrow, wide = (terminal.draw(chart, width) for width in (40, 100))
    rates = re.findall(r"[\d.,]+ [GTP]FLOP/s", wide[wide.index("ridge") :])
    assert len(rates) >= 3
    assert all(rate in narrow for rate in rates)


def test_points_in_one_cell_say_what_they_stand_under() -> None:
    assert re.search(r"\(under \w\)", terminal.draw(crowd(), 80, 15))
