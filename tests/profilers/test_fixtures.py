"""Every fixture says where it comes from: recorded with which tool, or written by hand to which format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOLDERS = sorted(path for path in FIXTURES.iterdir() if path.is_dir())


def named(readme: Path) -> set[str]:
    """Files that the list of a README names in front of a colon."""
    entries = re.findall(r"^- ((?:`[^`]+`(?:, )?)+):", readme.read_text(encoding="utf-8"), flags=re.M)
    return {name for entry in entries for name in re.findall(r"`([^`]+)`", entry)}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_of_a_folder_is_explained(folder: Path) -> None:
    readme = folder / "README.md"
    files = {path.name for path in folder.iterdir() if path.is_file()} - {readme.name}
    assert named(readme) == files
    text = readme.read_text(encoding="utf-8")
    assert "recorded" in text or "written by hand" in text


def test_a_file_that_is_not_explained_is_found(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Tool\n\n- `a.csv`, `b.csv`: recorded, unlike `c.csv`.\n")
    assert named(tmp_path / "README.md") == {"a.csv", "b.csv"}


def test_what_is_written_by_hand_has_no_header_of_a_recording() -> None:
    (line, *_) = (FIXTURES / "perf" / "handmade_events.csv").read_text(encoding="utf-8").splitlines()
    assert "started on" not in line
