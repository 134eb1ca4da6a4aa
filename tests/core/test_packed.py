"""Texts of an archive: read when asked for, and equal to what has the same text."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from ridgeline.core.packed import Packed
from ridgeline.machines import coefficients


def test_a_packed_text_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    archive = tmp_path / "texts.zip"
    packed = Packed(archive, "one")  # of a file that is not there yet
    with ZipFile(archive, "w") as made:
        made.writestr("one", "1 2 µ")
        made.writestr("other", "1 2 µ")
    assert str(packed) == "1 2 µ"
    assert packed == "1 2 µ"
    assert packed == Packed(archive, "other")
    assert hash(packed) == hash("1 2 µ")
    assert packed != "1 2"
    assert packed != 1


def test_every_correction_of_the_catalog_is_a_text_of_its_archive() -> None:
    kept = [row.nearby for row in coefficients.of_machine("h200-sxm").values() if row.nearby]
    assert len(kept) > 1000
    assert all(isinstance(each, Packed) for each in kept)
