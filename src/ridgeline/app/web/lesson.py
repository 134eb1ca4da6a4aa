"""Lessons: markdown files with figures that ridgeline computes, rendered to HTML with places for widgets.

A file is `lessons/NN-slug.md`; NN gives the order, the slug the address. It begins with TOML between two lines `+++`:
`title`, `summary`, `minutes`, `holds` (statements about the figures that the text relies on), `[figures]` (see
`figures.py`). In the text, `{matmul.flops}` is a figure, `::: short` and `::: detail` open a block that is shown at one
depth only, and `:::` closes it. Fenced blocks: `widget NAME` with options in TOML, `glossary`, `reading`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from threading import Lock
from typing import Any

from ...core.errors import InputError, unknown
from .figures import Figures
from .questions import case_work

FOLDER = Path(__file__).with_name("lessons")
FILE_NAME = re.compile(r"(\d\d)-([a-z0-9-]+)\.md")
FRONT = re.compile(r"\+\+\+\n(.*?\n)\+\+\+\n(.*)", re.S)
FRONT_KEYS = {"title", "summary", "minutes", "holds", "figures"}
DEPTHS = ("short", "detail")
MIN_OPTIONS = 2  # of a quick check
_LOADING = Lock()

# Every widget with its options, all of them needed; `static/js/widgets/NAME.js` mounts it.
WIDGETS: dict[str, tuple[str, ...]] = {
    "factory": (),
    "counts": ("cases", "on"),
    "buildup": ("on", "dtype"),
    "readout": ("on", "dtype"),
    "place": ("on", "cases"),
    "phases": ("on", "dtype", "hidden", "prompt"),
    "generations": ("machines", "dtype"),
    "roof": ("on", "dtype"),
    "batch": ("in_features", "out_features", "machines", "dtype"),
    "precision": ("case", "on", "dtypes"),
    "levels": ("case", "on"),
    "tiling": ("n", "on", "tiles"),
    "regimes": ("on", "cases"),
    "stages": (),
    "drill": ("seconds",),
    "check": ("question", "options", "answer", "why"),
    "energy": ("on",),
    "communication": ("on",),
}


@dataclass(frozen=True)
class Entry:
    """A lesson in the list: what its front matter says."""

    slug: str
    order: int
    title: str
    summary: str
    minutes: int

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("slug", "order", "title", "summary", "minutes")}


@dataclass(frozen=True)
class Lesson:
    entry: Entry
    html: str
    checks: int  # quick checks, which the page scores
    figures: Figures


# -- the list ------------------------------------------------------------------------------------------------------


@lru_cache(1)
def index() -> tuple[Entry, ...]:
    """All lessons in order; figures are not computed."""
    entries = [_entry(path, _split(path)[0]) for path in sorted(FOLDER.glob("*.md"))]
    slugs = [entry.slug for entry in entries]
    if len(set(slugs)) < len(slugs):
        raise InputError(f"two lessons have one slug: {', '.join(slugs)}")
    return tuple(entries)


def _entry(path: Path, front: Mapping[str, Any]) -> Entry:
    name = FILE_NAME.fullmatch(path.name)
    if name is None:
        raise InputError(f"{path.name}: a lesson is called NN-slug.md")
    missing = {"title", "summary", "minutes"} - set(front)
    if missing or set(front) - FRONT_KEYS:
        raise InputError(f"{path.name}: front matter has {', '.join(front)}; it takes {', '.join(sorted(FRONT_KEYS))}")
    return Entry(name[2], int(name[1]), front["title"], front["summary"], front["minutes"])


def _split(path: Path) -> tuple[dict[str, Any], str]:
    """Front matter and text of a file."""
    parts = FRONT.fullmatch(path.read_text(encoding="utf-8"))
    if parts is None:
        raise InputError(f"{path.name}: a lesson begins with TOML between two lines +++")
    try:
        return tomllib.loads(parts[1]), parts[2]
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path.name}: front matter: {error}") from error


def document(slug: str) -> dict[str, Any]:
    """One lesson for the page: its HTML, and the lessons before and after it."""
    shown, entries = lesson(slug), index()
    place = entries.index(shown.entry)
    near = {"previous": place - 1, "next": place + 1}
    links = {name: _link(entries[at]) if 0 <= at < len(entries) else None for name, at in near.items()}
    return {**shown.entry.document(), "checks": shown.checks, "html": shown.html, "of": len(entries), **links}


def _link(entry: Entry) -> dict[str, str]:
    return {"slug": entry.slug, "title": entry.title}


def lesson(slug: str) -> Lesson:
    """A lesson with its figures computed and its text rendered, once: who asks meanwhile waits for it."""
    with _LOADING:
        return _lesson(slug)


@lru_cache(None)  # an error is not kept, so only slugs that exist are
def _lesson(slug: str) -> Lesson:
    entry = next((entry for entry in index() if entry.slug == slug), None)
    if entry is None:
        raise unknown("lesson", slug, (entry.slug for entry in index()))
    return read(FOLDER / f"{entry.order:02d}-{slug}.md")


def read(path: Path) -> Lesson:
    """The lesson of a file; InputError names the file and what is wrong with it."""
    front, text = _split(path)
    entry = _entry(path, front)
    figures = Figures(front.get("figures", {}), path.name)
    for statement in front.get("holds", []):
        figures.check(statement)
    page = _Page(entry, path.name)
    parts = []
    for depth, block in _blocks(figures.fill(text), path.name):
        html = page.render(block)
        parts.append(f'<div class="depth" data-depth="{depth}">\n{html}</div>\n' if depth else html)
    return Lesson(entry, "".join(parts), page.checks, figures)


def _blocks(text: str, where: str) -> Iterator[tuple[str, str]]:
    """The text cut at the lines that open and close a block of one depth: (depth or nothing, text)."""
    depth, lines, fenced = "", [], False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        mark = None if fenced or not line.startswith(":::") else line.removeprefix(":::").strip()
        if mark is None:
            lines.append(line)
            continue
        if bool(mark) == bool(depth) or (mark and mark not in DEPTHS):
            raise InputError(f"{where}: line {number} of the text: '{line}' opens or closes no block of one depth")
        yield depth, "\n".join(lines)
        depth, lines = mark, []
    if depth or fenced:
        raise InputError(f"{where}: {'::: ' + depth if depth else 'a fenced block'} is not closed")
    yield depth, "\n".join(lines)


# -- markdown to HTML ----------------------------------------------------------------------------------------------


class _Page:
    """Renders the blocks of one lesson and numbers their widgets."""

    def __init__(self, entry: Entry, where: str) -> None:
        from markdown_it import MarkdownIt
        from markdown_it.renderer import RendererHTML

        self.entry, self.where = entry, where
        self.widgets = self.checks = 0
        self.parser = MarkdownIt("commonmark", {"html": False}).enable("table")
        renderer = self.parser.renderer
        assert isinstance(renderer, RendererHTML)
        rules: dict[str, Any] = renderer.rules
        self.plain_fence = rules["fence"]
        rules["fence"] = self._fence
        rules["table_open"] = lambda *_: '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>\n'
        rules["table_close"] = lambda *_: "</table></div>\n"

    def render(self, text: str) -> str:
        tokens = self.parser.parse(text)
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", anchor(tokens[place + 1].content))
            for child in token.children or ():
                if child.type == "link_open":
                    self._aim(child)
        return str(self.parser.renderer.render(tokens, self.parser.options, {}))

    def _aim(self, link: Any) -> None:
        """A link to another lesson, written as its file name, leads to its page; others open apart."""
        target = str(link.attrGet("href"))
        name = FILE_NAME.fullmatch(target)
        if name:
            if not (FOLDER / target).is_file():
                raise InputError(f"{self.where}: {target} is no lesson")
            link.attrSet("href", f"#/lessons/{name[2]}")
            link.attrSet("data-lesson", name[2])
        elif target.startswith("https://"):
            link.attrSet("rel", "noopener noreferrer")
            link.attrSet("target", "_blank")
        elif not target.startswith("#/"):
            raise InputError(f"{self.where}: a link leads to a lesson, a view (#/explore) or https://, not to {target}")

    def _fence(self, tokens: Any, place: int, options: Any, environment: Any) -> str:
        kind, _, name = tokens[place].info.strip().partition(" ")
        content = tokens[place].content
        if kind == "widget":
            return self._widget(name.strip(), content)
        if kind == "glossary":
            return _glossary()
        if kind == "reading":
            return _reading(content.split("\n"), self.where)
        return str(self.plain_fence(tokens, place, options, environment))

    def _widget(self, name: str, content: str) -> str:
        try:
            options = tomllib.loads(content)
            check_widget(name, options)
        except (tomllib.TOMLDecodeError, InputError) as error:
            raise InputError(f"{self.where}: widget {name}: {error}") from error
        self.widgets += 1
        self.checks += name == "check"
        data = escape(json.dumps(options, ensure_ascii=False, sort_keys=True))
        mark = f"{self.entry.slug}-{self.widgets}"
        return f'<div class="widget" id="{mark}" data-widget="{name}" data-options="{data}"></div>\n'


def anchor(heading: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", heading.lower()))


def check_widget(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a widget, an option, a machine, a format or a case that does not exist."""
    from ...core.dtypes import dtype as dtype_row
    from ...machines.load import load

    if name not in WIDGETS:
        raise unknown("widget", name, WIDGETS)
    if set(options) != set(WIDGETS[name]):
        raise InputError(f"takes {', '.join(WIDGETS[name]) or 'no options'}; given are {', '.join(options) or 'none'}")
    for machine in (*options.get("machines", ()), *([options["on"]] if "on" in options else ())):
        load(machine)
    for format_name in (*options.get("dtypes", ()), *([options["dtype"]] if "dtype" in options else ())):
        dtype_row(format_name)
    cases = [*options.get("cases", ()), *([options["case"]] if "case" in options else ())]
    for case in cases:
        case_work(case["case"] if isinstance(case, Mapping) else case)
    if name == "check":
        answers, right = options["options"], options["answer"]
        if len(answers) < MIN_OPTIONS or len(set(answers)) < len(answers) or not 0 <= right < len(answers):
            raise InputError(f"answer {right} of {len(answers)} different options: {'; '.join(answers)}")


def _words() -> dict[str, dict[str, str]]:
    from ...render.tables.named import GLOSSARY

    document: dict[str, dict[str, str]] = tomllib.loads(GLOSSARY.read_text(encoding="utf-8"))
    return document


def _glossary() -> str:
    """The terms that `ridgeline glossary` prints."""
    terms = sorted(_words()["terms"].items())
    rows = [f'<dt id="{anchor(term)}">{escape(term)}</dt><dd>{_with_code(meaning)}</dd>' for term, meaning in terms]
    return '<dl class="glossary">\n' + "\n".join(rows) + "\n</dl>\n"


def _with_code(text: str) -> str:
    """Text as HTML, what stands in backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _reading(begins: list[str], where: str) -> str:
    """The works whose titles begin so, from the list that `ridgeline glossary` prints."""
    works = _words()["reading"]
    rows = []
    for start in filter(None, map(str.strip, begins)):
        titles = [title for title in works if title.startswith(start)]
        if len(titles) != 1:
            raise InputError(f"{where}: {len(titles)} works begin with '{start}'")
        rows.append(f"<li>{escape(titles[0])}: {escape(works[titles[0]])}.</li>")
    return '<ul class="reading">\n' + "\n".join(rows) + "\n</ul>\n"
