"""Drawings by matplotlib: the SVG parsed, texts that never overlap, the same bytes every time."""

from __future__ import annotations

import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from matplotlib.text import Text

import ridgeline as rl
from amount import some
from legible import assert_legible, extents
from pictures import crowd, picture
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.render.chart import Axis, Bar, Chart, Line, Panel, Point
from ridgeline.render.charts import CHARTS
from ridgeline.render.draw import files, mpl, terminal, themes
from ridgeline.render.draw.labels import shorten

SVG = "{http://www.w3.org/2000/svg}"


def path_of(root: ElementTree.Element, identity: str) -> list[tuple[float, float]]:
    group = next(item for item in root.iter() if item.get("id") == identity)
    words = next(group.iter(f"{SVG}path")).get("d", "").split()
    numbers = [float(word) for word in words if word not in "MLz"]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def use_of(root: ElementTree.Element, identity: str) -> tuple[float, float]:
    group = next(item for item in root.iter() if item.get("id") == identity)
    use = next(group.iter(f"{SVG}use"))
    return float(use.get("x", "nan")), float(use.get("y", "nan"))


def test_svg_has_a_sloped_and_a_flat_roof_where_the_axes_say() -> None:
    chart = picture(dtype="fp32").charts[0]
    root = ElementTree.fromstring(mpl.svg(chart))
    (x0, y0), (x1, y1) = path_of(root, "c0-line-bandwidth-0")
    flat = path_of(root, "c0-line-peak-1")
    assert flat[0][1] == pytest.approx(flat[-1][1])
    assert (x1, y1) == pytest.approx(flat[0], abs=0.01)
    # decades per point on both axes, from the drawing itself, give the slope
    background = path_of(root, "patch_2")
    wide, high = (max(spot[axis] for spot in background) - min(spot[axis] for spot in background) for axis in (0, 1))
    across, up = (math.log(axis.range[1] / axis.range[0]) for axis in (chart.x, chart.y))
    assert ((y0 - y1) / high * up) / ((x1 - x0) / wide * across) == pytest.approx(1, abs=1e-3)
    # the roof rises at 45 degrees on paper
    assert (y0 - y1) / (x1 - x0) == pytest.approx(1, abs=0.01)
    # points are under the roof: larger y is lower in SVG
    for index, point in enumerate(chart.points):
        if point.role == "expected":
            x, y = use_of(root, f"c0-point-expected-{index}")
            roof = y1 if x >= x1 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
            assert y > roof


def test_svg_keeps_its_texts_as_text() -> None:
    source = mpl.svg(picture(dtype="fp32"))
    words = " ".join("".join(item.itertext()) for item in ElementTree.fromstring(source).iter(f"{SVG}text"))
    for expected in (
        "Roofline of a100-sxm-80gb", "memory-bound", "compute-bound", "ridge 9.56 FLOP/B", "arithmetic intensity (FLOP/B)",
        "performance (FLOP/s)", "HBM 2.04 TB/s", "fp32 vector 19.5 TFLOP/s", "axpy 1e8", "gemm 4096³", "1 TFLOP/s", "1/4", "stated ceilings",
    ):  # fmt: skip
        assert expected in words
    for identity in (
        "c0-mark-ridge-0",
        "c0-caption-memory",
        "c0-caption-compute",
        "c0-region-memory",
        "c0-axes",
        "c0-point-ridge-0",
    ):
        assert f'id="{identity}"' in source
    assert "<title>gemm 4096³" in source  # shown when the pointer rests on the point


def test_ids_are_unique_and_a_prefix_keeps_two_pictures_apart() -> None:
    identities = [re.findall(r'id="([^"]+)"', mpl.svg(picture(), prefix=prefix)) for prefix in ("a-", "b-")]
    ours = [{identity for identity in names if "c0-" in identity} for names in identities]
    assert len(identities[0]) == len(set(identities[0]))
    assert not ours[0] & ours[1]


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    axes = Axis("x", "FLOP/B", "log", (1, 64)), Axis("y", "FLOP/s", "log", (1e9, 1e12))
    small = Chart("roofline", "t", *axes, points=(Point(8, 1e10, "gemm", "", "expected"),))
    for suffix in mpl.SUFFIXES:
        for name in ("one", "two"):
            mpl.render(picture() if suffix == ".svg" else small, tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes(), suffix
    assert "2026" not in (tmp_path / "one.svg").read_text(encoding="utf-8")


def test_dark_is_dark_and_an_unknown_theme_is_refused() -> None:
    light, dark = (mpl.svg(picture(), name) for name in ("light", "dark"))
    assert themes.THEMES["dark"]["background"] in dark
    assert themes.THEMES["dark"]["background"] not in light
    with pytest.raises(UnknownName, match="theme"):
        mpl.svg(picture(), "sepia")


CASES = [(name, machine) for name in CHARTS for machine in ("a100-sxm-80gb", "tpu-v5e", "epyc-9654")]


@pytest.mark.parametrize(("name", "machine"), some(CASES, 2))
def test_no_two_texts_overlap_and_none_is_cut_off(name: str, machine: str) -> None:
    try:
        shown = picture(name, rl.machine(machine))
    except InputError:
        pytest.skip("this machine states too little for this chart")
    assert_legible(mpl.draw(shown))


def test_thirty_points_in_one_place_become_a_numbered_list_and_say_so() -> None:
    drawn = mpl.draw(crowd())
    assert_legible(drawn)
    words = " ".join(text for text, _, _ in extents(drawn))
    assert "numbers: names listed above" in words
    for index in range(1, 31):
        assert re.search(rf"\b{index}  gemm", words)
    placed = [
        item for item in drawn.findobj(Text) if re.fullmatch(r"\d+", item.get_text()) and "label" in str(item.get_gid())
    ]
    assert len(placed) == 30


def test_the_overlap_check_itself_can_fail() -> None:
    drawn = mpl.draw(picture())
    drawn.text(0.5, 0.5, "one")
    drawn.text(0.501, 0.5, "other")
    with pytest.raises(AssertionError):
        assert_legible(drawn)


def test_long_names_are_shortened_with_the_whole_one_in_the_data() -> None:
    name = "a_very_long_kernel_name_" * 6
    chart = Chart(
        "roofline",
        "t",
        Axis("x", "FLOP/B", "log", (1, 64)),
        Axis("y", "FLOP/s", "log", (1e9, 1e12)),
        points=(Point(8, 1e10, shorten(name), "", "expected", name),),
    )
    assert_legible(mpl.draw(chart))
    assert len(shorten(name)) == 34
    assert chart.rows()[0]["label"] == name


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("look", ["bars", "pyramid"])
def test_long_names_leave_room_for_the_bars(look: str) -> None:
    axis = Axis("rate", "FLOP/s", "linear", (0, 1e12))
    bars = tuple(Bar(f"kernel number {index} " * 9, 1e12 / index, text="a remark " * 20) for index in (1, 2, 9))
    chart = Chart("bars", "t", axis, axis, bars=bars, look=look)
    for shown in (chart, Panel("two", (chart, chart))):
        drawn = mpl.draw(shown)
        assert_legible(drawn)
        assert all(axes.get_window_extent().width > 10 for axes in drawn.axes)


def test_a_long_legend_takes_several_rows_and_a_long_entry_several_lines() -> None:
    x, y = Axis("x", "", "log", (1, 64)), Axis("y", "", "log", (1, 64))
    lines = tuple(Line(((1, 1), (64, 2 + index)), group=f"series number {index} " * 2) for index in range(12))
    long = Line(((1, 1), (64, 60)), group="an entry of the legend that is wider than the page " * 4)
    drawn = mpl.draw(Chart("x", "t", x, y, lines=(*lines, long)))
    assert_legible(drawn)
    words = " ".join(" ".join(text.split()) for text, _, _ in extents(drawn))
    assert all(" ".join(line.group.split()) in words for line in (*lines, long))


def test_the_style_of_the_caller_does_not_show() -> None:
    import matplotlib

    plain = mpl.svg(picture())
    with matplotlib.rc_context({"axes.linewidth": 9, "legend.fontsize": 30, "axes.grid": True, "font.family": "serif"}):
        assert mpl.svg(picture()) == plain


def test_texts_with_signs_of_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    axis = Axis("x", "FLOP/B", "log", (1, 64))
    chart = Chart(
        "x",
        "a <b> & $c_1$ </script>",
        axis,
        Axis("y", "FLOP/s", "log", (1e9, 1e12)),
        points=(Point(8, 1e10, "$k_2$ <i>"),),
    )
    root = ElementTree.fromstring(mpl.svg(chart))
    words = ["".join(item.itertext()) for item in root.iter(f"{SVG}text")]
    assert "a <b> & $c_1$ </script>" in words
    files.save(chart, tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert page.count("</script>") == 3  # the dots, the data, the page's own
    assert terminal.draw(chart)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="ridgeline\\[plot\\]"):
        mpl.svg(picture())
