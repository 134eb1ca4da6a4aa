"""The compiled probes: what others may have written is neither loaded nor trusted, and a note says so."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from ridgeline.measure.cpu import build as building
from ridgeline.measure.cpu import libraries

PLANTED = """
#include <stdlib.h>
int rl_count(void) { return 0; }
__attribute__((constructor)) static void run(void) { FILE_WRITTEN }
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ridgeline" / "kernels"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small libraries that leave a file where they are loaded; compiled once."""
    folder = tmp_path_factory.mktemp("tiny")
    files = []
    for name in ("first", "second"):
        body = f'fclose(fopen("{folder / name}.ran", "w"));'
        source = folder / f"{name}.c"
        source.write_text("#include <stdio.h>\n" + PLANTED.replace("FILE_WRITTEN", body), encoding="ascii")
        command = [*building.compiler()[0], "-shared", "-fPIC", "-o", str(folder / f"{name}.so"), str(source)]
        subprocess.run(command, check=True)
        files.append(folder / f"{name}.so")
    return files


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def notes(built: building.Built) -> str:
    return " ".join(built.notes)


# -- folders ------------------------------------------------------------------------------------------------------


def test_a_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    libraries.make_private(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700
    os.chmod(tmp_path / "a" / "b", 0o755)
    libraries.make_private(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize("bits", [0o770, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(bits: int, tmp_path: Path) -> None:
    os.chmod(tmp_path, bits)
    with pytest.raises(OSError, match="others may write to it"):
        libraries.make_private(tmp_path)
    assert mode(tmp_path) == bits


def test_a_link_and_somebody_elses_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="it is a link"):
        libraries.make_private(tmp_path / "link")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(OSError, match="it belongs to another user"):
        libraries.make_private(tmp_path / "real")


# -- libraries ----------------------------------------------------------------------------------------------------


@pytest.mark.needs_compiler
def test_what_is_kept_is_loaded_again(tiny: list[Path], tmp_path: Path) -> None:
    shutil.copy(tiny[0], tmp_path / "draft")
    file = tmp_path / "probes.so"
    assert libraries.kept(file) == (None, "")
    assert libraries.keep(tmp_path / "draft", file).rl_count() == 0
    assert mode(file) == 0o700
    library, fault = libraries.kept(file)
    assert (library.rl_count(), fault) == (0, "")


@pytest.mark.needs_compiler
@pytest.mark.parametrize("fault", ["content", "mode", "link", "owner", "pipe", "no digest", "not a library"])
def test_what_may_have_been_changed_is_not_loaded(
    fault: str, tiny: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(tiny[0], tmp_path / "draft")
    file = tmp_path / "probes.so"
    libraries.keep(tmp_path / "draft", file)
    ran = tiny[1].with_suffix(".ran")
    ran.unlink(missing_ok=True)
    file.unlink()
    planted = tmp_path / "planted.so"
    shutil.copy(tiny[1], planted)
    os.chmod(planted, 0o700)
    digest = file.with_suffix(".sha256")
    if fault == "link":
        file.symlink_to(planted)
    elif fault == "pipe":
        os.mkfifo(file, 0o700)
    elif fault == "not a library":
        file.write_bytes(b"nothing")
        os.chmod(file, 0o700)
    else:
        planted.rename(file)
    if fault == "mode":
        os.chmod(file, 0o777)
    if fault == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    if fault == "no digest":
        digest.unlink()
    library, reason = libraries.kept(file)
    assert library is None
    assert bool(reason) is (fault != "no digest")
    assert not ran.exists()


@pytest.mark.needs_compiler
def test_what_is_loaded_is_what_was_checked(tiny: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file that takes the name between the check and the loading is not loaded."""
    shutil.copy(tiny[0], tmp_path / "draft")
    file = tmp_path / "probes.so"
    libraries.keep(tmp_path / "draft", file)
    ran = tiny[1].with_suffix(".ran")
    ran.unlink(missing_ok=True)
    load = libraries._load

    def swap(handle: int, path: Path) -> object:
        os.replace(shutil.copy(tiny[1], tmp_path / "other"), path)
        return load(handle, path)

    monkeypatch.setattr(libraries, "_load", swap)
    assert libraries.kept(file)[0] is not None
    assert not ran.exists()


# -- the probes ---------------------------------------------------------------------------------------------------


@pytest.mark.needs_compiler
def test_a_planted_library_does_not_run(tiny: list[Path], cache: Path) -> None:
    file = building.build().file
    assert mode(cache) == 0o700
    ran = tiny[1].with_suffix(".ran")
    ran.unlink(missing_ok=True)
    file.unlink()
    shutil.copy(tiny[1], file)
    os.chmod(file, 0o700)
    built = building.build()
    assert not ran.exists()
    assert "its content has changed" in notes(built)
    assert "compiled again" in notes(built)
    assert building.build().notes == ()


@pytest.mark.needs_compiler
def test_a_shared_cache_is_gone_round(tiny: list[Path], cache: Path) -> None:
    """Others may write to the folder: nothing of it is loaded and nothing put into it."""
    file = building.build().file
    file.unlink()  # this process has it loaded: written over, it would end the process at its exit
    shutil.copy(tiny[1], file)
    os.chmod(cache, 0o777)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in cache.iterdir())
    built = building.build()
    assert not built.file.is_relative_to(cache)
    assert "others may write to it" in notes(built)
    assert "for this run only" in notes(built)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in cache.iterdir()) == before
    assert mode(built.file.parent) == 0o700


@pytest.mark.needs_compiler
def test_without_a_home_the_probes_are_compiled_for_the_run(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "")
    built = building.build()
    assert "your cache folder is not known" in notes(built)
    assert mode(built.file.parent) == 0o700
