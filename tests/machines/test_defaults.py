"""Default figures: every one with a source, none left that nothing reads."""

from __future__ import annotations

import re
import tomllib

from ridgeline.machines.defaults import FILE, defaults

DOCUMENT = tomllib.loads(FILE.read_text(encoding="utf-8"))
PACKAGE = FILE.parents[1]


def test_every_figure_has_a_positive_value_and_a_source() -> None:
    for table, figures in DOCUMENT.items():
        assert figures
        for name, entry in figures.items():
            assert set(entry) <= {"value", "unit", "source"}, f"{table}.{name}"
            assert entry["value"] > 0, f"{table}.{name}"
            assert len(entry["source"]) > 20, f"{table}.{name}"
            assert defaults(table)[name] == entry["value"]


def test_shares_lie_between_nothing_and_everything() -> None:
    for table in ("efficiency", "memory_efficiency", "lender_efficiency", "graph", "special"):
        assert all(0 < value < 1 for value in defaults(table).values()), table


def test_every_table_is_read_somewhere() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert set(re.findall(r'defaults\("(\w+)"\)', code)) <= set(DOCUMENT) <= set(re.findall(r'"(\w+)"', code))
