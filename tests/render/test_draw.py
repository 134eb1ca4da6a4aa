"""Drawings: the SVG parsed, texts that never overlap, the terminal, the page, files that are whole or not there."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from legible import assert_legible, extents
from ridgeline.app.reports import ceiling_pictures
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.core.machine import Figure, Level, Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.programs import ops
from ridgeline.render import table
from ridgeline.render.chart import Axis, Chart, Picture, Point, read
from ridgeline.render.charts import CHARTS, measured
from ridgeline.render.draw import files, html, mpl, terminal
from ridgeline.render.draw import labels as layout
from ridgeline.render.draw.labels import Box, Disc, Wanted, ladder, place, position, spread, ticks, wrap
from ridgeline.render.figure import plot
from ridgeline.render.table import Column, Table
from strategies import law

A100 = rl.machine("a100-sxm-80gb")
H100 = rl.machine("h100-sxm")
SVG = "{http://www.w3.org/2000/svg}"


def picture(name: str = "roofline", machine: Any = A100, **options: Any) -> Picture:
    return CHARTS[name](machine, **options)


def crowd(count: int = 30) -> Picture:
    """Products of nearly the same intensity and rate."""
    works = [ops.gemm(m=1024 + 64 * index, n=2048 + 128 * (index % 7), k=4096) for index in range(count)]
    return plot(A100, [rl.predict(work, A100) for work in works]).chart


# -- the SVG ----------------------------------------------------------------------------------------------


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
    # points stand under the roof: larger y is lower in SVG
    for index, point in enumerate(chart.points):
        if point.role == "expected":
            x, y = use_of(root, f"c0-point-expected-{index}")
            roof = y1 if x >= x1 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
            assert y > roof


def test_svg_keeps_its_texts_as_text() -> None:
    source = mpl.svg(picture(dtype="fp32"))
    words = " ".join("".join(item.itertext()) for item in ElementTree.fromstring(source).iter(f"{SVG}text"))
    for expected in (
        "Roofline of a100-sxm-80gb", "memory-bound", "compute-bound", "ridge: 9.56 FLOP/byte", "arithmetic intensity (FLOP/byte)",
        "performance (FLOP/s)", "HBM 2.039 TB/s", "fp32 vector 19.5 TFLOP/s", "axpy 1e8", "gemm 4096³", "1 TFLOP/s", "1/4", "stated ceilings",
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
    ours = [{identity for identity in found if "c0-" in identity} for found in identities]
    assert len(identities[0]) == len(set(identities[0]))
    assert not ours[0] & ours[1]


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in mpl.SUFFIXES:
        for name in ("one", "two"):
            mpl.render(picture(), tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes(), suffix
    assert "2026" not in mpl.svg(picture())


def test_dark_is_dark_and_an_unknown_theme_is_refused() -> None:
    light, dark = (mpl.svg(picture(), name) for name in ("light", "dark"))
    assert layout.THEMES["dark"]["background"] in dark
    assert layout.THEMES["dark"]["background"] not in light
    with pytest.raises(UnknownName, match="theme"):
        mpl.svg(picture(), "sepia")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", layout.THEMES)
def test_colours_differ_and_stand_out_from_the_background(name: str) -> None:
    colours = layout.THEMES[name]
    assert len(set(colours.values())) == len(colours)
    assert colours.keys() == layout.THEMES["light"].keys()
    for role in ("ink", "muted", "ridge", *(f"c{index}" for index in range(layout.COLOURS))):
        for ground in ("background", "memory", "compute"):
            low, high = sorted((luminance(colours[role]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) > 3, (role, ground)


# -- nothing overlaps, checked on matplotlib's own extents ------------------------------------------------


CASES = [(name, machine) for name in CHARTS for machine in ("a100-sxm-80gb", "tpu-v5e", "epyc-9654")]


@pytest.mark.parametrize(("name", "machine"), CASES)
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
    assert "numbers stand for names" in words
    for index in range(1, 31):
        assert re.search(rf"\b{index}  gemm", words)
    placed = [item for item in drawn.texts if re.fullmatch(r"\d+", item.get_text()) and "label" in str(item.get_gid())]
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
        Axis("x", "FLOP/byte", "log", (1, 64)),
        Axis("y", "FLOP/s", "log", (1e9, 1e12)),
        points=(Point(8, 1e10, layout.shorten(name), "", "expected", name),),
    )
    assert_legible(mpl.draw(chart))
    assert len(layout.shorten(name)) == 34
    assert chart.rows()[0]["label"] == name


def test_texts_with_signs_of_markup_are_shown_as_they_are(tmp_path: Path) -> None:
    axis = Axis("x", "FLOP/byte", "log", (1, 64))
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
    assert page.count("</script>") == 1
    assert terminal.draw(chart)


# -- layout -----------------------------------------------------------------------------------------------

spots = st.tuples(st.floats(0, 400), st.floats(0, 300), st.floats(5, 120), st.floats(8, 16))


@law(60)
@given(
    st.lists(spots, max_size=25),
    st.lists(st.tuples(st.floats(0, 400), st.floats(0, 300), st.floats(0, 400), st.floats(0, 300)), max_size=4),
)
def test_labels_that_were_placed_touch_nothing(labels: list[tuple[float, ...]], lines: list[tuple[float, ...]]) -> None:
    frame = Box(0, 0, 400, 300)
    wanted = [Wanted(x, y, wide, high) for x, y, wide, high in labels]
    discs = [Disc(label.x, label.y, 4.0) for label in wanted]
    segments = [((a, b), (c, d)) for a, b, c, d in lines]
    found = place(wanted, frame, discs, segments)
    assert len(found) == len(wanted)
    assert found == place(wanted, frame, discs, segments)  # deterministic
    placed = [spot for spot in found if spot is not None]
    for spot in placed:
        assert spot.box.within(frame)
        assert not any(disc.touches(spot.box) for disc in discs)
        assert not any(spot.box.crossed_by(segment) for segment in segments)
        assert not any(
            other.leader is not None and other is not spot and spot.box.crossed_by(other.leader) for other in placed
        )
    assert not any(one.box.overlaps(other.box) for one, other in combinations(placed, 2))


def test_a_lone_label_stands_right_of_its_point_without_a_leader() -> None:
    (spot,) = place([Wanted(100, 100, 50, 10)], Box(0, 0, 400, 300), [Disc(100, 100, 4)])
    assert spot is not None
    assert spot.leader is None
    assert spot.box.x0 > 100
    assert spot.box.holds(spot.box.x0 + 1, 100)


def test_a_label_without_room_is_not_placed() -> None:
    assert place([Wanted(50, 50, 200, 10)], Box(0, 0, 100, 100)) == [None]


@law(60)
@given(st.lists(st.tuples(st.floats(150, 250), st.floats(140, 160)), min_size=1, max_size=40))
def test_a_ladder_keeps_the_order_and_never_overlaps(points: list[tuple[float, float]]) -> None:
    frame = Box(0, 0, 500, 300)
    found = ladder([Wanted(x, y, 12, 11) for x, y in points], frame, [Disc(x, y, 4) for x, y in points])
    assert found is not None
    assert not any(one.box.overlaps(other.box) for one, other in combinations(found, 2))
    assert all(spot.box.within(frame) for spot in found)
    for row in {spot.box.y0 for spot in found}:
        members = sorted((point, spot.box.x0) for point, spot in zip(points, found, strict=True) if spot.box.y0 == row)
        assert [x for _, x in members] == sorted(x for _, x in members)


def test_a_ladder_without_room_says_so() -> None:
    assert ladder([Wanted(50, 50, 30, 11)] * 20, Box(0, 0, 100, 100)) is None
    assert ladder([], Box(0, 0, 1, 1)) == []


@law(100)
@given(st.lists(st.floats(0, 100), max_size=8))
def test_spread_keeps_the_order_and_the_distance(wanted: list[float]) -> None:
    centres = spread(wanted, 12, 0, 100)
    ordered = [centres[index] for index in sorted(range(len(wanted)), key=lambda index: (wanted[index], index))]
    assert all(later - earlier >= 12 - 1e-6 for earlier, later in pairwise(ordered))
    assert all(6 - 1e-6 <= centre <= 94 + 1e-6 for centre in centres)


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis("x", "FLOP/byte", "log", (1 / 16, 1024)), ["1/16", "1/4", "1", "4", "16", "64", "256", "1024"]),
        (Axis("y", "FLOP/s", "log", (1e11, 2e14)), ["100 GFLOP/s", "1 TFLOP/s", "10 TFLOP/s", "100 TFLOP/s"]),
        (Axis("y", "FLOP/s", "linear", (0, 3.2e14)), ["0 FLOP/s", "100 TFLOP/s", "200 TFLOP/s", "300 TFLOP/s"]),
        (Axis("year", "year", "linear", (2016, 2022)), ["2016", "2017", "2018", "2019", "2020", "2021", "2022"]),
        (Axis("share", "%", "linear", (0, 1)), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (Axis("y", "FLOP/s", "log", (1e12, 8e12)), ["1 TFLOP/s", "2 TFLOP/s", "5 TFLOP/s"]),
    ],
)  # fmt: skip
def test_ticks_read_as_people_write_them(axis: Axis, expected: list[str]) -> None:
    assert [label for _, label in ticks(axis)] == expected


@law(100)
@given(st.floats(1e-12, 1e18), st.floats(1.01, 1e9), st.sampled_from(["FLOP/byte", "FLOP/s", ""]), st.integers(3, 12))
def test_ticks_lie_in_range_and_are_few(first: float, factor: float, unit: str, most: int) -> None:
    axis = Axis("x", unit, "log", (first, first * factor))
    values = [value for value, _ in ticks(axis, most)]
    assert len(values) <= max(most, 8)
    assert values == sorted(set(values))
    assert all(first * 0.99999 <= value <= first * factor * 1.00001 for value in values)


def test_positions_and_wrapping() -> None:
    axis = Axis("x", "", "log", (1, 100))
    assert [position(axis, value, 0, 10) for value in (1, 10, 100)] == pytest.approx([0, 5, 10])
    assert wrap("a bb ccc toolongaword d", 5, len) == ["a bb", "ccc", "toolongaword", "d"]


# -- the terminal -----------------------------------------------------------------------------------------


def test_terminal_has_axes_roofs_ridge_captions_and_a_legend() -> None:
    shown = terminal.draw(picture(dtype="fp32"), 90, 20)
    for expected in (
        "memory-bound",
        "compute-bound",
        "ridge: 9.56 FLOP/byte",
        "arithmetic intensity (FLOP/byte)",
        "performance (FLOP/s)",
        "HBM 2.039 TB/s",
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
    shown = terminal.draw(picture(name), width, 12, ascii=plain)
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
    assert "(under a)" in terminal.draw(crowd(), 80, 15)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [30, 60, 100])
def test_a_table_on_a_narrow_terminal_keeps_its_numbers_whole(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", str(width))
    columns = (Column("what"), Column("rate", "measured rate", "flop/s"), Column("absent"), Column("how"))
    rows = [{"what": "vector.fp32", "rate": 123.4e9 + place, "how": "words " * 30} for place in range(3)]
    table.draw(Table("ceilings", columns, rows))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert sum("123.4 GFLOP/s" in line for line in lines) == 3
    framed = any("┃" in line for line in lines)
    assert framed == (width > 30)
    if framed:
        assert max(map(len, lines)) <= width
        assert "absent" not in screen.getvalue()


# -- the page ---------------------------------------------------------------------------------------------


def test_page_is_whole_offline_and_carries_its_data(tmp_path: Path) -> None:
    plot(A100, [rl.predict(ops.gemm(512, 512, 512), A100)]).save(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert "prefers-color-scheme: dark" in page
    assert "var(--rl-ink)" in page
    assert "<table>" in page
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    assert read(json.loads(found[1])).title == "Roofline of a100-sxm-80gb"
    assert len(page) < 200_000


def test_long_cells_are_broken_into_lines_and_short_ones_are_not() -> None:
    made = html.table(["how"], [["x" * html.LONG], ["y" * (html.LONG + 1)]])
    assert f"<td>{'x' * html.LONG}</td>" in made
    assert f"<td class=long>{'y' * (html.LONG + 1)}</td>" in made
    assert "td.long { white-space: normal;" in html.STYLE


def test_every_drawn_colour_follows_the_reader() -> None:
    drawn = html.themed(mpl.svg(picture("dl")))
    assert not re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn)


def test_a_dark_page_stays_dark(tmp_path: Path) -> None:
    files.save(picture(), tmp_path / "x.html", "dark")
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme" not in page
    assert layout.THEMES["dark"]["background"] in page


# -- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["roofline", "phases", "peaks", "pyramid"])
def test_every_suffix_is_written_by_its_owner(name: str, tmp_path: Path) -> None:
    shown = picture(name)
    starts = {
        ".svg": b"<?xml",
        ".png": b"\x89PNG",
        ".pdf": b"%PDF",
        ".html": b"<!DOCTYPE html>",
        ".json": b"{",
        ".csv": b"",
        ".md": b"# ",
    }
    assert set(starts) <= set(files.owners())
    for suffix, start in starts.items():
        path = files.save(shown, tmp_path / f"x{suffix}")
        assert path.read_bytes().startswith(start), suffix
    assert sorted(os.listdir(tmp_path)) == sorted(f"x{suffix}" for suffix in starts)
    assert read(json.loads((tmp_path / "x.json").read_text())).document() == shown.document()
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))
    assert len(rows) == len(shown.rows())


def test_unknown_suffix_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv, \.html, \.json, \.md, \.pdf, \.png, \.svg"):
        files.save(picture(), tmp_path / "x.bmp")
    with pytest.raises(InputError, match="no suffix"):
        files.save(picture(), tmp_path / "x")


def test_a_failed_drawing_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.svg"
    target.write_text("old")

    def broken(shown: Picture, path: Path, theme: str) -> None:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mpl, "render", broken)
    with pytest.raises(InputError, match="No space left"):
        files.save(picture(), target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.svg"]


def test_folders_that_cannot_be_written_give_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        files.save(picture(), tmp_path / "no" / "x.svg")
    (tmp_path / "sub.svg").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        files.save(picture(), tmp_path / "sub.svg")
    with pytest.raises(InputError, match="cannot write"):
        files.save(picture(), "/proc/x.json")


def test_a_link_keeps_pointing_where_it_points(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    files.save(picture(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")


# -- plot -------------------------------------------------------------------------------------------------


def test_plot_shows_itself(tmp_path: Path) -> None:
    prediction = rl.predict(ops.gemm(m=4096, n=14336, k=4096, dtype="bf16"), H100)
    figure = plot(H100, [prediction])
    assert figure.save(tmp_path / "gemm.svg") == tmp_path / "gemm.svg"
    assert figure._repr_html_().startswith("<svg")
    assert "gemm 4096x14336x4096" in figure.text(width=100)
    assert str(figure) == figure.text()
    assert figure.document() == figure.chart.document()
    assert figure.table()[1]
    assert plot(H100, prediction).document() == figure.document()
    assert plot(H100).chart.charts[0].lines  # bare roofs
    assert plot(A100, kind="batch").chart.kind == "batch"


def test_rendering_loads_matplotlib_only_when_it_draws() -> None:
    script = "import sys, ridgeline as rl; from ridgeline.render.figure import plot; from ridgeline.render.draw import files; m = rl.machine('h100-sxm'); plot(m).text(); files.owners(); print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "False"


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match="ridgeline\\[plot\\]"):
        mpl.svg(picture())


# -- what was measured ---------------------------------------------------------------------------------------


def two_cores() -> Machine:
    """Caches of 32 KiB and 1 MiB for each core, and 16 MiB for both together."""
    sizes = {"l1": (2.0**15, 2), "l2": (2.0**20, 2), "l3": (2.0**24, 1)}
    caches = [Level(name, Figure("B/s"), Figure("B", derived=size), instances=n) for name, (size, n) in sizes.items()]
    return Machine("here", kind="cpu", units={"core": 2}, levels=(*caches, Level("memory", Figure("B/s"), Figure("B"))))


def swept(mix: str, threads: int, sizes: Iterable[float]) -> list[Observation]:
    """Bandwidth by level: 80, 40, 20 and 10 GB/s for each core."""

    def seconds(size: float) -> float:
        rate = next(rate for end, rate in ((2**15, 80e9), (2**20, 40e9), (2**24, 20e9), (2**50, 10e9)) if size <= end)
        return size / rate

    return [
        Observation(f"{mix} {size}", "l1", (seconds(size),), Work(moves={("main", "a", "read"): size * threads}), {"mix": mix, "bytes": size * threads, "threads": threads})
        for size in sizes
    ]  # fmt: skip


STEPS = tuple(2.0**power for power in range(10, 28))
MIDDLES = (2.0**13, 2.0**18, 2.0**22, 2.0**26)


def test_one_thread_is_drawn_with_the_caches_that_one_thread_sees() -> None:
    chart = measured.working_sets(two_cores(), swept("read", 1, STEPS))
    assert [(mark.value, mark.label) for mark in chart.marks] == [
        (2.0**15, "l1: 32 KiB reported"),
        (2.0**20, "l2: 1 MiB reported"),
        (2.0**24, "l3: 16 MiB reported"),
    ]
    assert ", 1 core," in chart.subtitle


def test_cores_together_are_drawn_over_the_share_that_each_of_them_has() -> None:
    chart = measured.working_sets(two_cores(), [*swept("copy", 2, MIDDLES), *swept("read", 2, MIDDLES)])
    assert [line.label for line in chart.lines] == ["read", "copy"]
    assert [x for x, _ in chart.lines[0].points] == list(MIDDLES)
    assert [y for _, y in chart.lines[0].points] == pytest.approx([160e9, 80e9, 40e9, 20e9])
    assert [mark.value for mark in chart.marks] == [2.0**15, 2.0**20, 2.0**23]
    assert chart.marks[-1].label == "l3: 8 MiB reported for each of 2 cores"


def test_the_read_sweep_of_one_core_stands_beside_and_shows_the_levels() -> None:
    chart = measured.working_sets(two_cores(), [*swept("read", 2, MIDDLES), *swept("read", 1, STEPS)])
    assert [(line.label, line.role) for line in chart.lines[:2]] == [("read", "series"), ("read, 1 core", "target")]
    assert [line.label for line in chart.lines[2:]] == ["l1 80 GB/s", "l2 40 GB/s", "l3 20 GB/s", "memory 10 GB/s"]
    ends = [point for point in chart.points if point.role == "ridge"]
    assert [point.y for point in ends] == pytest.approx([80e9, 40e9, 20e9, 10e9])
    # between the last size that a level serves and the next one swept
    assert [point.x for point in ends[:-1]] == pytest.approx([2.0**15.5, 2.0**20.5, 2.0**24.5])
    # few points are marked, and those of the line that only its markers name
    assert [point.group for point in chart.points if not point.label] == ["read"] * 4 + ["read, 1 core"] * len(STEPS)
    assert {mark.value for mark in chart.marks} == {2.0**15, 2.0**20, 2.0**24, 2.0**23}


@pytest.mark.parametrize("sizes", [(), (4096.0,)])
def test_a_sweep_of_no_two_sizes_is_refused_and_leaves_the_other_pictures(sizes: tuple[float, ...]) -> None:
    seen = [*swept("read", 1, sizes), *swept("copy", 1, sizes)]
    with pytest.raises(InputError, match="no sweep to draw"):
        measured.working_sets(two_cores(), seen)
    assert ceiling_pictures(two_cores(), seen) == []


def test_products_on_one_core_and_on_all_are_two_lines() -> None:
    seen = [
        Observation(f"gemm {size} {threads}", "vector.fp32", (1.0,), ops.gemm(size, size, size, dtype="fp32"), {"size": size, "threads": threads, "library": "BLAS", "dtype": "fp32"})
        for size in (256, 512)
        for threads in (1, 2)
    ]  # fmt: skip
    chart = measured.gemm_sizes(two_cores(), seen)
    assert [(line.label, len(line.points)) for line in chart.lines] == [
        ("fp32 BLAS, 1 core", 2),
        ("fp32 BLAS, 2 cores", 2),
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_working_set_chart_can_be_read(theme: str) -> None:
    seen = [item for mix in measured.MIXES for item in swept(mix, 2, MIDDLES)] + swept("read", 1, STEPS)
    assert_legible(mpl.draw(measured.working_sets(two_cores(), seen), theme))
