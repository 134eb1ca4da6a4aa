"""Texts in ASCII, for outputs that have no other characters."""

from __future__ import annotations

FORMS = str.maketrans(
    {
        "³": "^3", "²": "^2", "→": ">", "×": "x", "·": "-", "…": "~", "µ": "u", "μ": "u", "±": "~", "≥": ">", "≤": "<", "–": "-",
        "—": "-", "█": "#", "▒": "-", "░": "?", "●": "o", "▴": "^", "│": "|", "└": "+", "─": "-", "\xa0": " ",
    }
)  # fmt: skip


def in_ascii(words: str) -> str:
    """The words with the nearest ASCII form of each character; `?` where it has none."""
    return words.translate(FORMS).encode("ascii", "replace").decode()
