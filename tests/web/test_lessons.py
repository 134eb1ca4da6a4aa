"""Lessons: every file loads, its numbers are computed, its statements hold, and the page gets what it mounts."""

from __future__ import annotations

import html
import json
import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from ridgeline.app.cli import COMMANDS
from ridgeline.app.web import lesson as lessons
from ridgeline.app.web.figures import Figures
from ridgeline.app.web.questions import ANSWERS
from ridgeline.core.errors import InputError, UnknownName
from ridgeline.prediction.extended import data_parallel_intensity, data_parallel_limit

A100 = "a100-sxm-80gb"
SLUGS = [entry.slug for entry in lessons.index()]
TEACHING = SLUGS[: SLUGS.index("drill")]
MAX_SMALL = 16  # integers up to here are counts, list numbers and exponents


def text_of(slug: str) -> str:
    """What a person reads, tables and quick checks included."""
    shown = lessons.lesson(slug).html
    options = [html.unescape(data) for data in re.findall(r'data-options="([^"]*)"', shown)]
    return html.unescape(re.sub(r"<[^>]+>", " ", shown)) + " ".join(options)


def widgets(slug: str) -> list[tuple[str, dict[str, Any]]]:
    marks = re.findall(r'data-widget="(\w+)" data-options="([^"]*)"', lessons.lesson(slug).html)
    return [(name, json.loads(html.unescape(options))) for name, options in marks]


def written(folder: Path, text: str, front: str = "", name: str = "01-trial.md") -> Path:
    path = folder / name
    path.write_text(f'+++\ntitle = "T"\nsummary = "S"\nminutes = 1\n{front}+++\n{text}', encoding="utf-8")
    return path


# -- the lessons ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", SLUGS)
def test_a_lesson_loads_and_uses_every_figure_it_asks_for(slug: str) -> None:
    shown = lessons.lesson(slug)
    assert not re.search(r"\{[a-z_]+[.\w:-]*\}", text_of(slug)), "a figure was left unfilled"
    assert set(shown.figures.answers) <= shown.figures.uses
    assert 'data-depth="short"' in shown.html
    assert 'data-depth="detail"' in shown.html
    assert "<script" not in shown.html
    assert " style=" not in shown.html


@pytest.mark.parametrize("slug", TEACHING)
def test_a_teaching_lesson_ends_in_quick_checks(slug: str) -> None:
    checks = [options for name, options in widgets(slug) if name == "check"]
    assert len(checks) >= 2
    assert lessons.document(slug)["checks"] == len(checks)
    assert all(len(options["options"]) >= 3 and options["why"] for options in checks)


class Nesting(HTMLParser):
    """Elements that are open, and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("br", "hr"):
            self.opened.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag


@pytest.mark.parametrize("slug", SLUGS)
def test_the_html_is_well_formed(slug: str) -> None:
    nesting = Nesting()
    nesting.feed(lessons.lesson(slug).html)
    assert nesting.opened == []
    assert len(set(nesting.ids)) == len(nesting.ids)


def test_right_answers_are_at_every_place() -> None:
    places = [options["answer"] for slug in SLUGS for name, options in widgets(slug) if name == "check"]
    assert max(places.count(place) for place in range(3)) <= len(places) / 2


def test_every_widget_is_in_some_lesson() -> None:
    assert {name for slug in SLUGS for name, _ in widgets(slug)} == set(lessons.WIDGETS)


def test_lessons_follow_one_another_by_links() -> None:
    documents = [lessons.document(slug) for slug in SLUGS]
    assert [entry.order for entry in lessons.index()] == list(range(1, len(SLUGS) + 1))
    assert documents[0]["previous"] is None
    assert documents[-1]["next"] is None
    for before, after in pairwise(documents):
        assert before["next"] == {"slug": after["slug"], "title": after["title"]}
        assert after["previous"]["slug"] == before["slug"]
        assert f'href="#/lessons/{after["slug"]}"' in before["html"]


def test_the_first_four_take_ten_minutes() -> None:
    assert sum(entry.minutes for entry in lessons.index()[:4]) <= 10


# Numbers that the lessons must show, with where they come from: counts by hand, dense peaks over bandwidth.
SHOWN = {
    "factory": ["10 steps per part", "1,000", "100"],
    "intensity": ["2,147,483,648 FLOP", "12.6 MB", "170.7 FLOP/B", "0.083 FLOP/B", "12 B", "341.3"],
    "chart": ["312 TFLOP/s", "2.04 TB/s", "153 FLOP/B", "156 FLOP/B", "9.56 FLOP/B", "76.5"],
    "operations": ["170.7", "113.8", "0.625 FLOP/B", " 1 FLOP/B", "0.125 FLOP/B", "60.8", "1,034", "409.6"],
    "prefill-decode": ["17.2 GFLOP", "41.9 MB", "409.6", "33.6 MFLOP", "33.6 MB", "31.5", "204.8", "83.9 MB", "67.1 MB"],
    "roof": ["3.17x", "1.64x", "153 FLOP/B", "295 FLOP/B", "292 FLOP/B", "prefill", "decode, slightly"],
    "batch": ["166", "169", "345", "120.5", "227.6", "409.6", "2,048 FLOP/B", "128 FLOP/B"],
    "precision": ["9.56", "76.5", "153", "306 OP/B", "612 OP/B", "8x", "64x", "3.88"],
    "hierarchy-and-tiling": ["0.25 FLOP/B", "15.88", "31.51", "62.06", "682.7", "163 KiB"],
    "three-regimes": ["3,584", "120 FLOP/B", "overhead"],
    "two-gaps": ["0.25 FLOP/B", "31.51", "682.7", "2,731x", "22x"],
    "energy": ["66.7 FLOP/B", "3.18 TFLOP/J", "61.3 GFLOP/J"],
    "communication": ["1,040 FLOP/B", "24,960 FLOP/B", "300 GB/s", "12.5 GB/s"],
    "drill": ["2,731", "0.167", "0.25", "1.25"],
    "takeaways": ["295 FLOP/B", "20 FLOP/B", "2,068", "62.7"],
}  # fmt: skip


@pytest.mark.parametrize("slug", SHOWN)
def test_the_numbers_are_the_right_ones(slug: str) -> None:
    text = text_of(slug)
    assert [number for number in SHOWN[slug] if number not in text] == []


def test_the_softmax_slice_is_the_overhead_case() -> None:
    (regimes,) = [options for name, options in widgets("three-regimes") if name == "regimes"]
    sides = [Figures({"c": {"op": words[0], "on": regimes["on"], **dict(word.split("=") for word in words[1:])}}).value("c.bound") for words in (case["case"].split() for case in regimes["cases"])]  # fmt: skip
    assert sides == ["compute", "memory", "memory", "overhead"]


def inputs(value: Any) -> set[str]:
    """Every number in the questions of a lesson, as it may be written in its text."""
    if isinstance(value, dict):
        return {text for item in value.values() for text in inputs(item)}
    if isinstance(value, list):
        return {text for item in value for text in inputs(item)}
    if isinstance(value, str):
        return set(re.findall(r"\d+(?:\.\d+)?", value))
    scales = (1, 1e-9, 1e-12)  # 2e12 B/s is written 2 TB/s
    return {f"{value * scale:g}" for scale in scales} | {f"{value * scale:.0f}" for scale in scales}


def typed_numbers(path: Path) -> list[str]:
    """Numbers of the text that are neither figures nor inputs of figures."""
    front, text = lessons._split(path)
    known = inputs(front.get("figures", {}))
    known |= {str(size) for options in re.findall(r"^```widget \w+\n(.*?)^```", text, re.M | re.S) for size in inputs(tomllib.loads(re.sub(r'"[^"]*"', '""', options)))}  # fmt: skip
    text = re.sub(r"\{[\w.:-]+\}", "", text)
    text = re.sub(r"^```reading.*?^```|`[^`\n]+`|\]\([^)]*\)", "", text, flags=re.M | re.S)
    numbers = re.findall(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])", text)
    return [number for number in numbers if number not in known and not (number.isdigit() and int(number) <= MAX_SMALL)]


# A share made up for an exercise, the version of PCIe, and a rate that is quoted to be corrected.
CONVENTIONS = {"11-two-gaps.md": {"40"}, "13-communication.md": {"4.0", "600"}}


@pytest.mark.parametrize("path", sorted(lessons.FOLDER.glob("*.md")), ids=lambda path: path.name)
def test_no_number_is_typed_that_ridgeline_computes(path: Path) -> None:
    assert set(typed_numbers(path)) <= CONVENTIONS.get(path.name, set())


def test_a_typed_number_is_noticed(tmp_path: Path) -> None:
    figures = f'[figures]\na = {{ machine = "{A100}", intensity = 40 }}\n'
    path = written(
        tmp_path, "The ridge is 153 FLOP/B, not {a.ridge}; 40 is asked for, FP16 is a name, 3 is small.", figures
    )
    assert typed_numbers(path) == ["153"]


def test_glossary_and_reading_are_those_of_the_command() -> None:
    words = tomllib.loads(Path(lessons.__file__).parents[2].joinpath("render/tables/glossary.toml").read_text("utf-8"))
    glossary, reading = lessons.lesson("glossary").html, lessons.lesson("reading").html
    assert glossary.count("<dt ") == len(words["terms"])
    assert [title for title in words["reading"] if reading.count(html.escape(title)) != 1] == []


# -- figures -------------------------------------------------------------------------------------------------------


def test_figures_are_written_with_units() -> None:
    asked = {
        "g": {"op": "gemm", "m": 1024, "n": 1024, "k": 1024, "dtype": "fp32", "on": A100},
        "i": {"machine": A100, "dtype": "int8"},
        "never": {"critical": [256, 256], "on": A100, "dtype": "fp16"},
        "band": {"band": "tuned"},
        "share": {"ratio": ["i.peak", "i.bandwidth"]},
    }
    text = Figures(asked).fill(
        "{g.flops} {g.flops:exact} {g.intensity} {g.intensity:4} {g.intensity:number} {g.tensors.A} {g.bound} {i.peak} {i.ridge} "
        "{i.levels.l2.capacity} {never.critical_batch} {band.tuned_low:number} {band.tuned_high} {share}"
    )
    assert text == (
        "2.15 GFLOP 2,147,483,648 FLOP 171 FLOP/B 170.7 FLOP/B 171 4.19 MB compute 624 TOP/s 306 OP/B 40 MiB never 65 85 % 306"
    )


@pytest.mark.parametrize(
    ("questions", "use", "message"),
    [
        ({"a": {"machine": "a10000"}}, "", "figure a: unknown machine"),
        ({"a": {"machine": A100, "color": 1}}, "", "figure a: .*color"),
        ({"a": {"op": "gemm", "m": 1, "on": A100}}, "", "gemm needs n, k"),
        ({"a": {"weather": 1}}, "", "begins with one of op, machine"),
        ({"a": {"ratio": ["b.peak", "c.peak"]}}, "", "unknown figure 'b'"),
        ({"a": {"machine": A100}}, "{b.peak}", "unknown figure 'b'"),
        ({"a": {"machine": A100}}, "{a.peek}", "unknown field of a 'peek': did you mean peak"),
        ({"a": {"machine": A100}}, "{a.levels}", "has fields: l1, l2, hbm"),
        ({"a": {"machine": A100}}, "{a.peak:bold}", "neither a number of digits"),
        ({"a": {"machine": A100}}, "{a.dispatch}", "is not known"),
    ],
)
def test_a_figure_that_does_not_exist_is_refused(questions: dict[str, Any], use: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Figures(questions).fill(use)


def test_statements_are_checked() -> None:
    figures = Figures(
        {"a": {"machine": A100, "intensity": 1}, "n": {"critical": [256, 256], "on": A100, "dtype": "fp16"}}
    )
    figures.check("a.ridge > 152")
    figures.check("a.bound == memory")
    figures.check("n.critical_batch == never")
    for wrong, why in [("a.ridge < 152", "does not hold"), ("a.bound > 3", "compares"), ("a.ridge is high", "no statement"), ("b.ridge == 3", "does not hold")]:  # fmt: skip
        with pytest.raises(InputError, match=why):
            figures.check(wrong)


@pytest.mark.parametrize(
    ("tokens", "ridge", "width"), [(32768, 1040.0, 2.0), (32768, 12480.0, 2.0), (3000, 500.0, 4.0), (10, 1e6, 2.0)]
)
def test_the_limit_of_data_parallelism_is_where_the_intensity_crosses_the_ridge(tokens: float, ridge: float, width: float) -> None:  # fmt: skip
    limit = data_parallel_limit(tokens, ridge, width)
    bound = [data_parallel_intensity(tokens, devices, width) >= ridge for devices in range(2, 2 * limit + 2)]
    assert bound == [True] * (limit - 1) + [False] * (limit + 1)


# -- the loader ----------------------------------------------------------------------------------------------------


def test_text_becomes_markup_only_as_markdown(tmp_path: Path) -> None:
    text = (
        "A <b>tag</b> & [a lesson](01-factory.md), [a paper](https://example.org).\n\n::: detail\n# Deep, 3 levels\n:::\n\n"
        '```widget check\nquestion = "x < \\"y\\"?"\noptions = ["a", "b"]\nanswer = 0\nwhy = "z"\n```\n'
    )
    shown = lessons.read(written(tmp_path, text))
    assert "A &lt;b&gt;tag&lt;/b&gt; &amp; " in shown.html
    assert '<a href="#/lessons/factory" data-lesson="factory">' in shown.html
    assert 'rel="noopener noreferrer"' in shown.html
    assert '<div class="depth" data-depth="detail">\n<h1 id="deep-3-levels">' in shown.html
    assert '<div class="widget" id="trial-1" data-widget="check" data-options="{&quot;answer&quot;: 0,' in shown.html
    assert shown.checks == 1


@pytest.mark.parametrize(
    ("text", "front", "message"),
    [
        ("::: short\nx", "", "is not closed"),
        ("::: deep\nx\n:::", "", "opens or closes no block"),
        (":::\nx", "", "opens or closes no block"),
        ("::: short\n::: detail\n:::\n:::", "", "opens or closes no block"),
        ("```widget nothing\n```", "", "unknown widget"),
        ("```widget roof\non = 'h100-sxm'\n```", "", "takes on, dtype; given are on"),
        ("```widget roof\non = 'h1000'\ndtype = 'fp16'\n```", "", "unknown machine"),
        ("```widget levels\non = 'h100-sxm'\ncase = 'gem m=1'\n```", "", "unknown op"),
        ("```widget check\nquestion = 'q'\noptions = ['a', 'a']\nanswer = 0\nwhy = ''\n```", "", "different options"),
        ("```widget check\nquestion = 'q'\noptions = ['a', 'b']\nanswer = 2\nwhy = ''\n```", "", "answer 2 of 2"),
        ("[x](elsewhere.html)", "", "a link leads to"),
        ("[x](99-nowhere.md)", "", "is no lesson"),
        ("```reading\nNobody\n```", "", "0 works begin with"),
        ("x", "color = 1\n", "front matter has"),
        ("x", 'holds = ["1 > 2"]\n', "does not hold"),
        ("x", "title =\n", "front matter: "),
    ],
)  # fmt: skip
def test_a_lesson_with_a_mistake_is_refused(tmp_path: Path, text: str, front: str, message: str) -> None:
    with pytest.raises(InputError, match=f"01-trial.md: .*{message}"):
        lessons.read(written(tmp_path, text, front))


def test_an_unknown_lesson_names_similar_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean factory"):
        lessons.lesson("factori")


def test_a_lesson_that_many_ask_for_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    begin = Barrier(8)
    read = lessons.read
    monkeypatch.setattr(lessons, "read", lambda path: made.append(path) or read(path))
    lessons._lesson.cache_clear()

    def ask(_: int) -> lessons.Lesson:
        begin.wait()
        return lessons.lesson("reading")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert len(made) == 1
    assert all(answer is answers[0] for answer in answers)


def test_commands_in_the_text_exist() -> None:
    commands = {command for path in lessons.FOLDER.glob("*.md") for command in re.findall(r"`ridgeline ([\w-]+)", path.read_text("utf-8"))}  # fmt: skip
    assert {"profile", "reconcile", "seal"} <= commands <= set(COMMANDS)


def test_every_kind_of_question_is_described() -> None:
    assert all(answer.__doc__ or name in ("peak", "format") for name, answer in ANSWERS.items())


# -- the addresses -------------------------------------------------------------------------------------------------


def test_the_server_lists_and_shows_lessons() -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from ridgeline.app.web.server import make_app

    client = TestClient(make_app(hosts=["testserver"]))
    listed = client.get("/api/lessons").json()["lessons"]
    assert [row["slug"] for row in listed] == SLUGS
    assert set(listed[0]) == {"slug", "order", "title", "summary", "minutes"}
    shown = client.get("/api/lessons/communication").json()
    assert shown["of"] == len(SLUGS)
    assert 'data-widget="communication"' in shown["html"]
    assert (shown["previous"]["slug"], shown["next"]["slug"]) == ("energy", "drill")
    for wrong, status in [("nothing", 404), ("..%2f..%2fetc", 404), ("x" * 90, 404), ("x" * 101, 422)]:
        answer = client.get(f"/api/lessons/{wrong}")
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
