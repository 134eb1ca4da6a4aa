"""Figures of a lesson: named questions to ridgeline, and the text of every field of their answers.

A lesson asks in its front matter, and its text shows `{matmul.flops}`: the field `flops` of the answer to `matmul`.
The key that a question begins with says what it is about:

    matmul = { op = "gemm", m = 1024, n = 1024, k = 1024, dtype = "fp32", on = "a100-sxm-80gb" }
    a100   = { machine = "a100-sxm-80gb", dtype = "fp16", intensity = 2 }
    gain   = { ratio = ["h100.peak", "a100.peak"] }

`questions.py` answers them. A field keeps its JSON name, which also gives its unit.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.dtypes import TABLE
from ...core.errors import InputError, quoted, unknown
from ...core.units import percent, show
from .questions import ANSWERS

# The unit of a field by its name; a field that is not listed is a plain number or a word.
UNITS = {
    "flop": ("flops",), "flop/s": ("peak", "attainable", "rate"), "flop/B": ("intensity", "ridge", "balance", "saturation"),
    "B": ("bytes", "read", "written", "footprint", "capacity", "weights", "kv", "activations", "total"),
    "B/s": ("bandwidth",), "s": ("launch", "dispatch"), "W": ("tdp", "static"), "J": ("joules_per_token",),
    "J/flop": ("per_flop",), "J/B": ("per_byte",), "FLOP/J": ("work_per_joule", "limit_per_joule", "with_static"),
}  # fmt: skip
UNIT_OF = {name: unit for unit, names in UNITS.items() for name in names}
TIMES = {"_us": 1e-6, "_ms": 1e-3}
SHARES = (
    "efficiency",
    "share_of_peak",
    "share_of_roofline",
    "mfu",
    "mbu",
    "share",
    "tuned_low",
    "tuned_high",
    "fault",
    "near",
)
INTEGER_UNITS = {"flop": "op", "flop/s": "op/s", "flop/B": "op/B"}  # of formats that count OP
COLLECTIONS = {"tensors": "B", "ridges": "flop/B", "links": "B/s"}  # fields by name, all of one unit

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq,
}  # fmt: skip
REFERENCE = re.compile(r"\{([A-Za-z_]\w*(?:\.[\w-]+)*)(?::([a-z0-9]+))?\}")
STYLES = ("exact", "number")


class Figures:
    """The answers to the questions of one lesson, each asked once."""

    def __init__(self, questions: Mapping[str, Any], where: str = "the lesson") -> None:
        self.where = where
        self.answers: dict[str, Any] = {}
        self.uses: set[str] = set()
        for name, question in questions.items():
            try:
                self.answers[name] = self._answer(question)
            except InputError as error:
                raise InputError(f"{where}: figure {name}: {error}") from error

    def _answer(self, question: Any) -> Any:
        kind = next(iter(question), None) if isinstance(question, Mapping) else None
        if kind == "ratio":
            return self._ratio(question[kind])
        if kind not in ANSWERS:
            kinds = ", ".join([*ANSWERS, "ratio"])
            raise InputError(f"{quoted(question)} is no question; it begins with one of {kinds}")
        given = dict(question)
        if isinstance(given.get("of"), str):
            given["of"] = self.value(given["of"])
        try:
            return ANSWERS[kind](given.pop(kind), **given)
        except TypeError as error:  # a word that this kind of question does not take
            raise InputError(str(error)) from error

    def _ratio(self, pair: Any) -> float:
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError("a ratio is of two figures, such as ['h100.peak', 'a100.peak']")
        above, below = (float(self.value(path)) for path in pair)
        return above / below

    def value(self, path: str) -> Any:
        """What a path such as `matmul.flops` leads to."""
        name, *fields = path.split(".")
        self.uses.add(name)
        if name not in self.answers:
            raise InputError(f"{self.where}: {unknown('figure', name, self.answers)}")
        value = self.answers[name]
        for field in fields:
            if not isinstance(value, Mapping) or field not in value:
                known = value if isinstance(value, Mapping) else ()
                raise InputError(f"{self.where}: {unknown(f'field of {name}', field, map(str, known))}")
            value = value[field]
        return value

    def text(self, path: str, style: str | None = None) -> str:
        """A figure as people write it, with its unit.

        `style` is a number of digits instead of three, `exact` for all digits, or `number` for no unit.
        """
        value = self.value(path)
        if isinstance(value, Mapping | list):
            raise InputError(f"{self.where}: {path} has fields: {', '.join(map(str, value))}")
        if style is not None and not (style.isdigit() or style in STYLES):
            raise InputError(f"{self.where}: {path}:{style} is neither a number of digits nor {' or '.join(STYLES)}")
        if value is None and not path.endswith("batch"):
            raise InputError(f"{self.where}: {path} is not known")
        if value is None:
            return "never"
        if isinstance(value, str | bool):
            return value if isinstance(value, str) else "yes" if value else "no"
        return _written(path.split("."), float(value), style, self._counts_op(path))

    def _counts_op(self, path: str) -> bool:
        answer = self.answers[path.partition(".")[0]]
        name = answer.get("dtype") if isinstance(answer, Mapping) else None
        return isinstance(name, str) and name in TABLE and TABLE[name].integer

    def fill(self, text: str) -> str:
        """The text with every `{figure}` written out."""
        return REFERENCE.sub(lambda match: self.text(match[1], match[2]), text)

    def check(self, statement: str) -> None:
        """Refuse a statement such as `matmul.intensity > a100.ridge` that the figures do not bear out."""
        words = statement.split()
        if len(words) != 3 or words[1] not in COMPARE:
            raise InputError(f"{self.where}: {quoted(statement)} is no statement; write FIGURE > FIGURE")
        left, right = (self._side(word) for word in (words[0], words[2]))
        try:
            holds = COMPARE[words[1]](left, right)
        except TypeError as error:
            raise InputError(f"{self.where}: {quoted(statement)} compares {left!r} with {right!r}") from error
        if not holds:
            raise InputError(f"{self.where}: {statement} does not hold: {left} against {right}")

    def _side(self, word: str) -> Any:
        """A figure, a number, or a word that a figure may be."""
        if word.partition(".")[0] in self.answers:
            return self.value(word)
        try:
            return float(word)
        except ValueError:
            return {"never": None, "True": True, "False": False}.get(word, word)


def _written(path: Sequence[str], value: float, style: str | None, counts_op: bool) -> str:
    field = path[-1]
    digits = int(style) if style and style.isdigit() else 3
    if len(path) > 1 and field in SHARES:
        return percent(value).removesuffix(" %") if style == "number" else percent(value)
    unit = COLLECTIONS[path[-2]] if len(path) > 2 and path[-2] in COLLECTIONS else UNIT_OF.get(field, "")
    for suffix, factor in TIMES.items():
        if field.endswith(suffix):
            value, unit = value * factor, "s"
    if len(path) == 1:
        unit = ""  # a ratio
    unit = INTEGER_UNITS.get(unit, unit) if counts_op else unit
    whole_number = value.is_integer() and abs(value) < 2**53
    if style == "exact":
        name = show(0.0, unit).removeprefix("0").strip()
        return f"{value:,.0f} {name}".strip() if whole_number else f"{value!r} {name}".strip()
    if style == "number" or (not unit and whole_number):
        unit = ""
        return show(int(value)) if whole_number else show(value, "", digits)
    return show(value, unit, digits, binary=field == "capacity").replace("/flop", "/FLOP")  # as people read it
