"""Tables on a terminal."""

from __future__ import annotations

import io
import re

import pytest

from ridgeline.app.cli.present import print_table
from ridgeline.render.table import Column, Table, columns


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
    print_table(Table("ceilings", columns, rows))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert sum("123 GFLOP/s" in line for line in lines) == 3
    framed = any("┃" in line for line in lines)
    assert framed == (width > 30)
    if framed:
        assert max(map(len, lines)) <= width
        assert "absent" not in screen.getvalue()


def test_characters_of_two_columns_keep_the_table_aligned() -> None:
    table = Table("", columns("name", "time"), [{"name": "\u77e9\u9635", "time": 1}, {"name": "abcd", "time": 2}])
    assert table.text().splitlines() == ["name  time", "\u77e9\u9635     1", "abcd     2"]
