"""A note is its text and keeps its kind wherever it goes."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from ridgeline.core.notes import KINDS, LOWER_BOUND, NOISE, Note, kind_of, not_of_kind, of_kind


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_note_is_its_text_and_has_a_kind(kind: str) -> None:
    note = Note(kind, "samples drift")
    assert note == "samples drift"
    assert f"{note}" == "samples drift"
    assert json.loads(json.dumps([note])) == ["samples drift"]
    assert kind_of(note) == kind


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_kind_survives_copying_and_pickling(protocol: int) -> None:
    note = Note(NOISE, "samples drift")
    for same in (copy.copy(note), copy.deepcopy([note])[0], pickle.loads(pickle.dumps(note, protocol))):
        assert (same, kind_of(same)) == (note, NOISE)


def test_the_kind_survives_removing_duplicates() -> None:
    notes = tuple(dict.fromkeys([Note(NOISE, "a"), Note(LOWER_BOUND, "b"), Note(NOISE, "a")]))
    assert [kind_of(note) for note in notes] == [NOISE, LOWER_BOUND]


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no kind of note is called 'nois'; there is .*noise"):
        Note("nois", "samples drift")


def test_notes_are_chosen_by_kind_and_plain_text_has_none() -> None:
    notes = [Note(NOISE, "a"), "noise: plain text", Note(LOWER_BOUND, "b")]
    assert list(of_kind(notes, NOISE)) == ["a"]
    assert list(of_kind(notes, NOISE, LOWER_BOUND)) == ["a", "b"]
    assert list(not_of_kind(notes, NOISE)) == ["noise: plain text", "b"]
    assert kind_of("noise: plain text") == ""
