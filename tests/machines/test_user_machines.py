"""The user's machine files: a broken one is listed as broken and hides no other; what is there twice is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ridgeline.app.cli import main
from ridgeline.core.errors import InputError, SchemaError
from ridgeline.machines import files
from ridgeline.machines.load import load

T4 = (files.CATALOG / "t4.toml").read_text(encoding="utf-8")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder of machines."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "ridgeline" / "machines"
    folder.mkdir(parents=True)
    files.paths.cache_clear()
    yield folder
    files.paths.cache_clear()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_a_broken_file_is_listed_and_hides_nothing(own: Path) -> None:
    (own / "bad.toml").write_text("aliases = 5\n", encoding="utf-8")
    (own / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (own / "mine.toml").write_text(T4.replace('name = "t4"', 'name = "mine"'), encoding="utf-8")
    (own / "folder.toml").mkdir()
    os.mkfifo(own / "pipe.toml")
    (own / "gone.toml").symlink_to(own / "nowhere")
    listed = files.listing()
    assert set(listed.machines) == {path.stem for path in files.CATALOG.glob("*.toml")} | {"mine"}
    assert [each.name for each in listed.broken] == ["bad", "binary", "folder", "gone", "pipe"]
    assert listed.broken[0].file == str(own / "bad.toml")
    result = run("machines")
    assert result.exit_code == 0
    assert f"bad: broken, {own / 'bad.toml'}: kind: is missing" in result.stdout
    assert "h200-sxm" in result.stdout
    rows = {row["name"]: row for row in json.loads(run("machines", "--json").stdout)}
    assert rows["bad"]["broken"].startswith("kind")
    assert rows["mine"]["vendor"] == "NVIDIA"
    assert {row["vendor"] for name, row in rows.items() if name in ("bad", "pipe")} == {None}


def test_asking_for_a_broken_file_gives_its_complaints(own: Path) -> None:
    (own / "bad.toml").write_text("aliases = 5\n", encoding="utf-8")
    with pytest.raises(SchemaError) as raised:
        load("bad")
    assert len(raised.value.complaints) == 6
    assert load("h200").name == "h200-sxm"
    assert load("NVIDIA H200").name == "h200-sxm"
    result = run("predict", "gemm", "m=8", "n=8", "k=8", "--on", "bad")
    assert result.exit_code == 2
    assert "6 mistakes found" in result.stderr
    assert run("compare", "h200-sxm", "t4").exit_code == 0
    assert run("chart", "trend", "--on", "h200-sxm").exit_code == 0


def test_hidden_files_are_no_machines(own: Path) -> None:
    """Such as the drafts that killed saves left."""
    (own / ".here-cpu.1234.part.toml").write_text("name =", encoding="utf-8")
    (own / ".x.toml.1234.draft").mkdir()
    (own / ".x.toml.1234.draft" / "x.toml").write_text("name =", encoding="utf-8")
    listed = files.listing()
    assert (listed.broken, listed.remarks) == ((), ())
    assert not set(listed.machines) - {path.stem for path in files.CATALOG.glob("*.toml")}


def test_what_is_there_twice_is_said_and_the_users_file_wins(own: Path) -> None:
    (own / "t4.toml").write_text(T4, encoding="utf-8")
    (own / "h200sxm.toml").write_text(T4, encoding="utf-8")
    remarks = files.listing().remarks
    assert f"t4: the file in {own} is used, not the catalog's" in remarks
    assert "h200sxm and h200-sxm differ in dashes only; write the one you mean in full" in remarks
    assert "h200sxm: the file calls the machine 't4'; it is loaded by the name of the file" in remarks
    assert any("is in h200sxm and t4; it means h200sxm" in text for text in remarks)
    assert load("t4").file == str(own / "t4.toml")
    assert load("h200-sxm").name == "h200-sxm"
    assert files.by_driver_name(load("h200sxm").aliases[0])[0] == load("h200sxm")


@pytest.mark.parametrize("home", ["", "relative", "/", None])
def test_the_catalog_needs_no_home(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HOME", home)
    files.paths.cache_clear()
    assert run("predict", "gemm", "m=8", "n=8", "k=8", "--on", "h200-sxm").exit_code == 0
    result = run("machines")
    assert result.exit_code == 0
    assert "your config folder is not known: HOME is" in result.stdout
    assert run("predict", "gemm", "m=8", "n=8", "k=8").exit_code == 2
    assert files.saved_measurement() is None
    with pytest.raises(InputError, match="set HOME"):
        files.saved_file()
    files.paths.cache_clear()


def test_files_that_are_no_machine_files_are_refused_by_size(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text(T4 + "#" * 34_000_000, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"over the limit of 32 MiB \(bytes of a machine file\).*--limit machine=64MiB"
    ):
        load(path)
    with pytest.raises(InputError, match="over the limit"):
        load("/dev/zero")


@pytest.mark.parametrize("asked", ["~nosuch/x.toml", "a/b\0c", "x/" * 3000, "x" * 5000 + ".toml", "/"])
def test_odd_paths_are_one_message(asked: str) -> None:
    with pytest.raises(InputError):
        load(asked)


def test_drawing_makes_no_folder_in_an_odd_home(tmp_path: Path) -> None:
    """Nor does anything else of a command that needs no home."""
    clear = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "MPL"))}
    command = [sys.executable, "-m", "ridgeline", "chart", "peaks", "--on", "h200-sxm", "--out", "a.svg"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**clear, "HOME": "home"}, capture_output=True, text=True, check=True
    )
    assert done.stderr == "wrote a.svg\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]
