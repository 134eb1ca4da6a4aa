"""The pages say what is true: consoles show what commands print now, links lead somewhere, counts are counted."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "ridgeline"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]

sys.path.insert(0, str(DOCS))
from make_consoles import PAGES as WITH_CONSOLES  # noqa: E402
from make_consoles import filled  # noqa: E402
from make_models import filled as models_filled  # noqa: E402


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page", [page for page in WITH_CONSOLES if "```console" in page.read_text("utf-8")], ids=name_of
)
def test_consoles_show_what_the_commands_print(page: Path) -> None:
    """`python docs/make_consoles.py` fills them again."""
    if "$ ridgeline trace" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    assert filled(page) == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s#\"]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert not missing


def test_every_page_is_in_one_of_the_four_groups_and_can_be_reached_from_the_readme() -> None:
    groups = {"start", "use", "understand", "contribute"}
    assert {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")} <= groups
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)\s#\"]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        waiting += [(page.parent / link).resolve() for link in links if not link.startswith("http")]
    assert set(DOCS.rglob("*.md")) <= reached


def test_the_table_of_models_is_current() -> None:
    """`python docs/make_models.py` writes it again."""
    page = (DOCS / "use" / "models.md").read_text(encoding="utf-8")
    assert models_filled(page) == page


def test_glossary_page_equals_the_glossary() -> None:
    terms = tomllib.loads((PACKAGE / "render" / "tables" / "glossary.toml").read_text(encoding="utf-8"))["terms"]
    page = (DOCS / "understand" / "glossary.md").read_text(encoding="utf-8")
    assert all(name in page and text in page for name, text in terms.items())


def test_coverage_page_names_tests_that_exist() -> None:
    page = (DOCS / "contribute" / "coverage.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page))
    assert len(named) > 50
    for file, name in sorted(named):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {name}"


def test_coverage_page_counts_its_rows() -> None:
    page = (DOCS / "contribute" / "coverage.md").read_text(encoding="utf-8")
    items, *rest = re.split(r"^## ", page, flags=re.M)
    states = Counter[str]()
    for ids, state in re.findall(r"^\| (S\d.*?) \|.*\| (shown|partly|open)[^|]*\|$", items, flags=re.M):
        states[state] += len(ids.split(", "))
    held = "".join(section for section in rest if section.startswith("What must hold"))
    must = Counter(re.findall(r"\| (shown|partly|open)[^|]*\|$", held, flags=re.M))
    sentence = (
        f"Items of this version: {states.total()}. Shown: {states['shown']}. Partly: {states['partly']}. Open: {states['open']}. "
        f"Of the {must.total()} conditions under *What must hold* {must['shown']} are shown and {must['open']} is open"
    )
    assert sentence in " ".join(page.split())


def test_pages_give_the_same_error_of_the_expected_time() -> None:
    table = (DOCS / "understand" / "expected.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^all +2,800 +([\d.]+) % +[\d.]+ % +([\d.]+) %", table, flags=re.M)
    median, most = (f"{float(cell):.0f}" for cell in row)
    for name in ("README.md", "docs/start/faq.md"):
        page = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        assert f"median error is {median} % and P90 is {most} %" in page, name
