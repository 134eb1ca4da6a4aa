"""Files in the format of their suffix, complete or not there at all."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amount import some
from pictures import picture
from ridgeline.core.errors import InputError
from ridgeline.render.chart import Picture, document, read
from ridgeline.render.draw import files, mpl


@pytest.mark.parametrize("name", some(["roofline", "pyramid", "phases", "peaks"], 2))
def test_every_suffix_is_written_by_its_owner(name: str, tmp_path: Path) -> None:
    shown = picture(name)
    starts = {
        ".svg": b"<?xml",
        ".png": b"\x89PNG",
        ".pdf": b"%PDF",
        ".html": b"<!DOCTYPE html>",
        ".json": b"{",
        ".csv": b"",
        ".md": b"# ",
    }
    assert set(starts) <= set(files.renderers())
    for suffix, start in starts.items():
        path = files.save(shown, tmp_path / f"x{suffix}")
        assert path.read_bytes().startswith(start), suffix
    assert sorted(os.listdir(tmp_path)) == sorted(f"x{suffix}" for suffix in starts)
    assert document(read(json.loads((tmp_path / "x.json").read_text()))) == document(shown)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))
    assert len(rows) == len(shown.rows())


def test_unknown_suffix_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.csv, \.html, \.json, \.md, \.pdf, \.png, \.svg"):
        files.save(picture(), tmp_path / "x.bmp")
    with pytest.raises(InputError, match="no suffix"):
        files.save(picture(), tmp_path / "x")


def test_a_failed_drawing_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.svg"
    target.write_text("old")

    def broken(shown: Picture, path: Path, theme: str) -> None:
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mpl, "render", broken)
    with pytest.raises(InputError, match="No space left"):
        files.save(picture(), target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x.svg"]


def test_folders_that_cannot_be_written_give_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        files.save(picture(), tmp_path / "no" / "x.svg")
    (tmp_path / "sub.svg").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        files.save(picture(), tmp_path / "sub.svg")
    with pytest.raises(InputError, match="cannot write"):
        files.save(picture(), "/proc/x.json")


def test_a_link_keeps_pointing_where_it_points(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    files.save(picture(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text().startswith("{")


def test_rendering_loads_matplotlib_only_when_it_draws() -> None:
    script = "import sys, ridgeline as rl; from ridgeline.render.figure import plot; from ridgeline.render.draw import files; m = rl.machine('h100-sxm'); plot(m).text(); files.renderers(); print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "False"
