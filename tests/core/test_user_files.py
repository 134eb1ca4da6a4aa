"""Paths and folders of the user are said or refused, never guessed; files are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ridgeline.core import files
from ridgeline.core.errors import InputError
from ridgeline.machines import folders

KINDS = ("config", "cache", "data")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Only HOME says where the user's folders are."""
    for kind in KINDS:
        monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


@pytest.mark.parametrize("kind", KINDS)
def test_folders_are_below_home_or_where_the_variable_says(kind: str, bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert folders.folder(kind) == tmp_path / folders.FOLDERS[kind] / "ridgeline"
    bare.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / "not there yet"))
    assert folders.folder(kind) == tmp_path / "not there yet" / "ridgeline"
    bare.delenv("HOME")
    assert folders.folder(kind) == tmp_path / "not there yet" / "ridgeline"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("home", [None, "", "  ", "/", "//", "here/below", "/no/such/folder", __file__])
def test_an_odd_home_is_refused(kind: str, home: str | None, bare: pytest.MonkeyPatch) -> None:
    if home is None:
        bare.delenv("HOME")
    else:
        bare.setenv("HOME", home)
    with pytest.raises(InputError, match=rf"your {kind} folder is not known: HOME is .*; set HOME to your home folder"):
        folders.folder(kind)


def test_a_home_that_cannot_be_read_is_refused(bare: pytest.MonkeyPatch) -> None:
    bare.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="which you may not read"):
        folders.folder("data")


@pytest.mark.parametrize("value", ["relative", "~/x", " /tmp", __file__])
def test_an_odd_variable_is_refused(value: str, bare: pytest.MonkeyPatch) -> None:
    bare.setenv("XDG_CACHE_HOME", value)
    with pytest.raises(InputError, match=r"XDG_CACHE_HOME is .*; set XDG_CACHE_HOME to a folder of yours, or unset it"):
        folders.folder("cache")


def test_without_platformdirs_the_folders_are_the_same(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_it = [folders.folder(kind) for kind in KINDS]
    bare.setitem(__import__("sys").modules, "platformdirs", None)
    assert [folders.folder(kind) for kind in KINDS] == with_it


@pytest.mark.parametrize("path", ["~nosuch/x.toml", "~nosuch", "a\0b"])
def test_paths_that_mean_nothing_are_one_message(path: str) -> None:
    for use in (files.user_path, files.writable, lambda path: files.write_text(path, "")):
        with pytest.raises(InputError, match=r"write the path in full|zero byte"):
            use(path)


def test_home_is_filled_in(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert files.user_path("~/a/b.toml") == tmp_path / "a" / "b.toml"


@pytest.mark.parametrize("name", ["x" * 300 + ".toml", "ä" * 200, "a/" * 3000 + "b"])
def test_names_that_no_file_can_have_are_one_message(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        files.write_text(tmp_path / name, "text")
    assert list(tmp_path.iterdir()) == []


# -- drafts -------------------------------------------------------------------------------------------------------


def test_a_draft_is_no_file_of_the_folder_and_keeps_the_suffix(tmp_path: Path) -> None:
    """What a killed program leaves is found by no listing of the folder, and writers still see the format."""
    drafts: list[Path] = []

    def write(draft: Path) -> None:
        draft.write_text("half", encoding="utf-8")
        drafts.append(draft)
        assert [path for path in tmp_path.iterdir() if path.is_file()] == []
        assert list(tmp_path.glob("*.toml")) == []

    assert files.write_atomically(tmp_path / "a.toml", write) == tmp_path / "a.toml"
    assert drafts[0].suffix == ".toml"
    assert drafts[0].parent.name.startswith(".")
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "a.toml"
    target.write_text("old", encoding="utf-8")

    def write(draft: Path) -> None:
        draft.write_text("half", encoding="utf-8")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        files.write_atomically(target, write)
    assert target.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.toml"]


def test_old_drafts_of_a_file_go_with_its_next_save(tmp_path: Path) -> None:
    ages = {".a.toml.0a.draft": 7200, ".a.toml.0b.draft": 60, ".b.toml.0c.draft": 7200}
    target = tmp_path / "a.toml"
    target.touch()
    now = target.stat().st_mtime
    for name, age in ages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.toml").touch()
        os.utime(tmp_path / name, (now - age, now - age))
    (tmp_path / ".a.toml.0d.draft").symlink_to(tmp_path)
    files.write_text(target, "new")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"a.toml", ".a.toml.0b.draft", ".b.toml.0c.draft", ".a.toml.0d.draft"}
