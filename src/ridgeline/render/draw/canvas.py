"""Characters on a terminal: cells with colours, lines in braille dots or in slashes and dashes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...core.cached import cached_property
from ...core.spelling import in_ascii
from .labels import wrap
from .themes import colour_roles

# 16-colour codes, so that the terminal's own theme decides how they look
CODES = {"roof": "1", "ridge": "35", "caption": "2", "axis": "2", "title": "1", "muted": "2"}
GROUP_CODES = {"c0": "34", "c1": "31", "c2": "32", "c3": "95", "c4": "33", "c5": "36", "c6": "37", "ridge": "35"}
BRAILLE = 0x2800
BRAILLE_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # the bits of a cell by column and row


@dataclass(frozen=True)
class Pen:
    """How texts are written: at most how wide, in which alphabet, with or without colour."""

    width: int
    groups: list[str]
    ascii: bool = False
    colour: bool = False

    @cached_property
    def roles(self) -> dict[str, str]:
        return colour_roles(self.groups)

    def paint(self, words: str, code: str) -> str:
        return f"\x1b[{code}m{words}\x1b[0m" if self.colour and code and words else words

    def group_code(self, group: str, otherwise: str = "") -> str:
        return GROUP_CODES[self.roles[group]] if group in self.roles else otherwise

    def spell(self, words: str) -> str:
        return in_ascii(words) if self.ascii else words

    def lines(self, words: str, width: int | None = None) -> list[str]:
        width = width or self.width
        return [line[:width] for line in wrap(self.spell(words), width, len)]

    def paragraph(self, words: str, code: str) -> list[str]:
        return [self.paint(line, code) for line in self.lines(words)]


class Canvas:
    """Cells of one character each, row 0 on top; braille dots are gathered before they become characters."""

    def __init__(self, width: int, height: int, braille: bool) -> None:
        self.width, self.height, self.braille = width, height, braille
        self.cells = [[" "] * width for _ in range(height)]
        self.codes = [[""] * width for _ in range(height)]
        self.dots = [[0] * width for _ in range(height)]

    def put(self, column: int, row: int, words: str, code: str = "", over: bool = True) -> None:
        for x, letter in enumerate(words, column):
            if 0 <= x < self.width and 0 <= row < self.height and (over or self.cells[row][x] == " "):
                self.cells[row][x], self.codes[row][x] = letter, code

    def is_free(self, column: int, row: int, length: int) -> bool:
        columns = range(column, column + length)
        inside = 0 <= row < self.height and column >= 0 and columns.stop <= self.width
        return inside and all(self.cells[row][x] == " " and not self.dots[row][x] for x in columns)

    def line(self, start: tuple[float, float], end: tuple[float, float], code: str, dotted: bool = False) -> None:
        """From one place to another in cells; what lies outside is left out."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        slope = abs(dy) * 2 / max(abs(dx), 1e-9)
        letter = "-" if slope < 0.35 else "|" if slope > 8 else "/" if dx * dy < 0 else "\\"
        steps = max(2, int(4 * max(abs(dx) * 2, abs(dy) * 4)))
        for step in range(steps + 1):
            x, y = start[0] + dx * step / steps, start[1] + dy * step / steps
            column, row = math.floor(x), math.floor(y)
            if not (0 <= column < self.width and 0 <= row < self.height):
                continue
            if self.braille:
                across, down = int((x - column) * 2), int((y - row) * 4)
                if not (dotted and down % 2):
                    self.dots[row][column] |= BRAILLE_DOTS[min(across, 1)][min(down, 3)]
                    self.codes[row][column] = self.codes[row][column] or code
            elif self.cells[row][column] in " .:" and not (dotted and self.cells[row][column] != " "):
                self.cells[row][column], self.codes[row][column] = (":" if dotted else letter), code

    def lines(self, pen: Pen) -> list[str]:
        return [
            "".join(self._letter(row, column, pen) for column in range(self.width)).rstrip()
            for row in range(self.height)
        ]

    def _letter(self, row: int, column: int, pen: Pen) -> str:
        letter = self.cells[row][column]
        if letter == " " and self.dots[row][column]:
            letter = chr(BRAILLE + self.dots[row][column])
        return letter if letter == " " else pen.paint(letter, self.codes[row][column])
