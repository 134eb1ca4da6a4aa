"""Foreign text made safe to keep: one line, no control characters, no terminal escapes, no surrogates."""

from __future__ import annotations

import re

MAX_LENGTH = 16384  # characters of a name; those of templated kernels reach thousands
BAD = "\ufffd"
_ESCAPES = re.compile(
    "\x1b(?:\\[[0-9;?]{0,64}[ -/]{0,8}[@-~]?|[\\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\\\)?|[ -~]?)|\x9b[0-9;?]{0,64}[@-~]?"
)
_BLANKS = re.compile("[\t\n\r\v\f\x85\u2028\u2029\xa0]+")


def clean(text: str, max_length: int = MAX_LENGTH) -> str:
    """The text as it may be kept: escapes removed, blanks made spaces, other unprintable characters replaced."""
    if len(text) > max_length:
        text = text[:max_length] + "..."
    if text.isprintable():
        return text
    text = _BLANKS.sub(" ", _ESCAPES.sub("", text))
    return text if text.isprintable() else "".join(sign if sign.isprintable() else BAD for sign in text)


# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def guarded(text: str) -> str:
    """A text for a cell of csv: one that a spreadsheet would run gets an apostrophe in front; numbers stay."""
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """The text that `guarded` has put into a cell."""
    return text[1:] if text.startswith("'") and guarded(text[1:]) == text else text
