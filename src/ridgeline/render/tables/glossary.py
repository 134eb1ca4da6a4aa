"""The glossary: the words of the tool, and further reading."""

from __future__ import annotations

import tomllib
from pathlib import Path

from ...core.errors import unknown
from ..table import Table, columns

GLOSSARY = Path(__file__).with_name("glossary.toml")
SYNONYMS = {"ai": "arithmetic intensity", "ridge point": "ridge", "roof": "ceiling", "flops": "flop"}


def glossary(term: str = "") -> Table:
    """All terms, or one."""
    document = tomllib.loads(GLOSSARY.read_text(encoding="utf-8"))
    terms: dict[str, str] = document["terms"]
    reading = ("", "further reading", *(f"  {title}: {why}" for title, why in document["reading"].items()))
    if term:
        name = SYNONYMS.get(term.lower(), term.lower())
        if name not in terms:
            raise unknown("term", term, terms)
        terms, reading = {name: terms[name]}, ()
    rows = [{"term": name, "meaning": text} for name, text in terms.items()]
    return Table("", columns("term", "meaning"), rows, reading)
