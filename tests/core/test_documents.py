"""One function makes every result a JSON document."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.figure import Figure, Level
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.core.notes import NOISE, Note
from ridgeline.core.observation import Observation
from ridgeline.core.work import work


@dataclass(frozen=True)
class Plain:
    name: str
    sizes: tuple[int, ...] = ()
    _hidden: int = 1


@dataclass(frozen=True)
class Listed:
    part: Plain
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    DOCUMENT: ClassVar = ("double", "count", "label=part.name", "note?", "remark?=note", "extra?")

    @property
    def double(self) -> str:
        return self.part.name * 2

    def count(self) -> int:
        return len(self.part.sizes)


def test_a_class_without_a_list_shows_its_public_fields_in_order() -> None:
    assert to_document(Plain("a", (1, 2))) == {"name": "a", "sizes": [1, 2]}


def test_a_list_names_properties_methods_parts_and_what_is_left_out_where_empty() -> None:
    assert to_document(Listed(Plain("a"))) == {"double": "aa", "count": 0, "label": "a"}
    full = to_document(Listed(Plain("a", (7,)), "n", {"k": 1}))
    assert list(full.items()) == [
        ("double", "aa"), ("count", 1), ("label", "a"), ("note", "n"), ("remark", "n"), ("extra", {"k": 1}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        (Path("a/b"), "a/b"),
        ({1: (2, 3)}, {"1": [2, 3]}),
        ({4}, [4]),
        (np.float64(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        ([np.bool_(True)], [True]),
    ],
)
def test_values_become_those_of_json(value: Any, document: Any) -> None:
    assert to_document(value) == document
    assert json.loads(json.dumps(to_document(value))) == document


def test_a_note_becomes_its_text() -> None:
    assert type(to_document(Note(NOISE, "two groups"))) is str


@pytest.mark.parametrize("value", [object(), Plain, lambda: 1, 1j])
def test_what_is_no_document_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no place in a document"):
        to_document(value)


# -- the documents of core, which files and the command line keep --------------------------------------------------


def test_a_figure_leaves_out_what_it_lacks_but_never_its_three_values() -> None:
    assert to_document(Figure("B/s", stated=1.0, source="sheet", spread=0.0)) == {
        "stated": 1.0, "derived": None, "measured": None, "source": "sheet",
    }  # fmt: skip
    assert list(to_document(Figure("B/s", measured=2.0, measurement="probe", spread=0.1)))[4:] == [
        "measurement",
        "spread",
    ]


def test_a_level_shows_values_and_the_source_of_its_bandwidth_where_it_has_none() -> None:
    level = Level("l2", Figure("B/s", stated=1.0, source="sheet"), Figure("B", stated=4.0), instances=2)
    document = to_document(level)
    assert (document["capacity"], document["total_capacity"], document["latency"]) == (4.0, 8.0, None)
    assert document["source"] == "sheet"
    assert "mixes" not in document


def test_a_machine_shows_ridges_and_only_the_coefficients_of_its_own() -> None:
    row = Fitted({"a": 1.0}, 0.1, 0.2, 0.9, 1.1, 10, "timed", {"n": (1.0, 2.0)}, nearby="long table")
    machine = rl.two_number(4.0, 2.0, launch=1e-6)
    machine = Machine(
        "m", peaks=machine.peaks, levels=machine.levels, launch=machine.launch,
        fitted={"mine": row, "theirs": Fitted({}, 0.1, 0.2, 0.9, 1.1, 10, "lent", borrowed=True)},
    )  # fmt: skip
    document = to_document(machine)
    assert document["ridges"] == {"peak": 2.0}
    assert document["launch"] == 1e-6
    assert list(document["fitted"]) == ["mine"]
    assert document["fitted"]["mine"]["ranges"] == {"n": [1.0, 2.0]}
    assert "nearby" not in document["fitted"]["mine"]


def test_an_observation_keeps_the_counts_of_the_definition_apart_from_those_of_counters() -> None:
    done = work(vector={"fma": (6.0, "")}, read={"x": (8.0, "int8", "")}, dtype="fp32")
    document = to_document(Observation("copy", "hbm", (1.0, 3.0), done, path=("step",), bytes={"hbm": 9.0}))
    assert (document["schema"], document["median"], document["best"]) == (1, 2.0, 1.0)
    assert document["flops"] == {"vector.fp32": 6.0}
    assert document["bytes"] == {"main x read": 8.0}
    assert document["observed_bytes"] == {"hbm": 9.0}
    assert document["path"] == ["step"]
    assert not {"observed_flops", "counters", "defined", "kernel"} & set(document)
