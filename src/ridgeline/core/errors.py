"""The few exceptions, and the one maker of every "unknown name" message.

A message says what was asked, what is there and what to do next, in words that fit Python and the command line alike.
Where the names are listed differs: Python's way is a note of the exception, the command line adds its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# How Python lists the names of a kind.
LISTED = {
    "machine": "ridgeline.machine_names() lists them; a path to a .toml file works too.",
    "op": "dir(ridgeline.ops) lists them.",
    "model": "ridgeline.programs.models.load.known() lists them; a path to a config.json works too.",
    "chart": "ridgeline.render.charts.CHARTS lists them.",
}

MAX_QUOTED = 200  # characters of somebody else's message that are passed on
MAX_VALUE = 60  # characters of a value that a message quotes


class RidgelineError(Exception):
    """Something the caller can put right; its text is meant for a person."""


class Interrupted(RidgelineError):
    """Ctrl-C, where more can be said than that: what was kept, or that nothing was."""


class InputError(RidgelineError):
    """A value, name or file that cannot be used as given."""


class UnknownName(InputError):
    """A name that is not in the collection it was looked up in, which is one of a `kind`."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        if kind in LISTED:
            self.add_note(LISTED[kind])


class MissingFigure(InputError):
    """A figure a machine does not have: not published, not derived, not measured."""


class SchemaError(InputError):
    """A file that breaks its format; carries every complaint, not only the first."""

    def __init__(self, where: str, complaints: Iterable[str]) -> None:
        self.where = where
        self.complaints = list(complaints)
        count = len(self.complaints)
        head = f"{where}: {count} mistake{'s' if count != 1 else ''} found"
        super().__init__("\n".join([head, *(f"  - {text}" for text in self.complaints)]))


def first_line(error: BaseException) -> str:
    """What an error of somebody else's library says, in one line and without the place in its source."""
    message = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip())
    return message.splitlines()[0][:MAX_QUOTED] if message else type(error).__name__


def quoted(value: object) -> str:
    """A value from outside in a message: in quotes, short, on one line, unprintable characters escaped."""
    try:
        text = str(value)
    except ValueError:  # an integer of thousands of digits has no text
        text = "a number with too many digits"
    return repr(text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}...")


def letters(name: str) -> str:
    """A name without what hands and programs vary: case, blanks, `-` and `_`."""
    return re.sub(r"[\s_-]+", "", name).casefold()


def unknown(kind: str, asked: object, known: Iterable[str], hint: str = "") -> UnknownName:
    """The error for a name that is not there, with the nearest names there are."""
    names, text = sorted(set(known)), quoted(asked)
    lower = text[1:-1].lower()
    near = get_close_matches(lower, names, n=4, cutoff=0.5)
    if not near:
        near = [name for name in names if lower in name][:4]
    if near:
        suggestion = "did you mean " + " or ".join(near) + "?"
    elif len(names) <= 24:
        suggestion = "there is " + ", ".join(names) + "." if names else "there are none."
    else:
        suggestion = "no name is close."
    return UnknownName(f"unknown {kind} {text}: {suggestion} {hint}".rstrip(), kind)
