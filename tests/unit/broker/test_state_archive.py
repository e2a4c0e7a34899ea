"""Archives of jobs' directories, in parts: what goes in comes out, and nothing gets out of the directory."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from broker.jobs.state_archive import StateArchiveError, pack, unpack


def packed(directory: Path, scratch: Path, part_bytes: int) -> list[bytes]:
    parts: list[bytes] = []
    pack(directory, scratch, lambda part: parts.append(part.read()), part_bytes)
    return parts


def seen(directory: Path) -> dict[str, object]:
    """By path: where a link leads, a file's mode and content, a directory's mode."""
    found: dict[str, object] = {}
    for path in sorted(directory.rglob("*")):
        mode, name = path.lstat().st_mode & 0o777, str(path.relative_to(directory))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = mode if path.is_dir() else (mode, path.read_bytes())
    return found


@pytest.mark.parametrize("part_bytes", [1000, 10_240, 1 << 20])
def test_what_goes_in_comes_out(tmp_path: Path, part_bytes: int) -> None:
    made = tmp_path / "made"
    (made / "deep" / ("x" * 150) / "é").mkdir(parents=True)
    (made / "deep" / "data").write_bytes(os.urandom(30_000))
    (made / "deep" / "twin").hardlink_to(made / "deep" / "data")
    (made / "run").write_text("#!/bin/sh\n")
    (made / "run").chmod(0o755)
    (made / "empty").touch(mode=0o600)
    (made / "to-data").symlink_to("deep/data")
    (made / "outside").symlink_to("/etc/passwd")
    (made / "to-directory").symlink_to("deep")
    parts = packed(made, tmp_path, part_bytes)
    assert all(len(part) == part_bytes for part in parts[:-1])
    assert 0 < len(parts[-1]) <= part_bytes
    unpack(map(io.BytesIO, parts), tmp_path / "new")
    assert seen(tmp_path / "new") == seen(made)


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    unpack(map(io.BytesIO, packed(tmp_path / "made", tmp_path, 1 << 20)), tmp_path / "new")
    assert seen(tmp_path / "new") == {}


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", content: bytes = b"") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, len(content)
    return made


def archive(*members: tarfile.TarInfo) -> list[IO[bytes]]:
    made = io.BytesIO()
    with tarfile.open(mode="w", fileobj=made) as tar:
        for one in members:
            tar.addfile(one, io.BytesIO(b"x" * one.size))
    return [io.BytesIO(made.getvalue())]


TRAPS: dict[str, Callable[[], list[IO[bytes]]]] = {
    "is outside its directory": lambda: archive(member("../evil", content=b"x")),
    "'/evil' is outside": lambda: archive(member("/evil", content=b"x")),
    "neither a file": lambda: archive(member("device", tarfile.CHRTYPE)),
    "'pipe' is neither": lambda: archive(member("pipe", tarfile.FIFOTYPE)),
    "'hard' is neither": lambda: archive(member("hard", tarfile.LNKTYPE, "/etc/passwd")),
    # What is written below a link is written into a directory that does not exist.
    "cannot be unpacked": lambda: archive(
        member("way", tarfile.SYMTYPE, "/tmp"), member("way/evil", content=b"x")
    ),
    "'evil' is below a link": lambda: archive(
        member("way", tarfile.SYMTYPE, "."), member("way/evil", tarfile.SYMTYPE, "x")
    ),
    "it cannot be": lambda: [io.BytesIO(archive(member("a", content=b"x" * 5000))[0].read()[:3000])],
}


@pytest.mark.parametrize("message", TRAPS)
def test_traps_are_refused(tmp_path: Path, message: str) -> None:
    with pytest.raises(StateArchiveError, match=message):
        unpack(TRAPS[message](), tmp_path / "new")
    assert not list(tmp_path.glob("**/evil"))


def test_a_link_is_never_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    twice = archive(member("a", tarfile.SYMTYPE, str(victim)), member("a", content=b"x"))
    with pytest.raises(StateArchiveError):
        unpack(twice, tmp_path / "new")
    assert victim.read_text() == "as it was"
