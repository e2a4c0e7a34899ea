"""Verifies the files of recorded data sets, and fetches those that their publishers have in the same form."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import httpx

from cloudsim.experiments.data_sets import DataFile

_CHUNK_BYTES = 1 << 16
_TIMEOUT_S = 30.0
_GONE = {404, 410}


class FileState(StrEnum):
    """The state of a file of a data set below the data directory."""

    WHOLE = "whole"
    MISSING = "missing"
    OTHER = "other"  # its content is not what was published


class DownloadError(Exception):
    """A file could not be fetched; the message names its address."""


def file_state(directory: Path, file: DataFile) -> FileState:
    """Compare a file with its checksum. Raises OSError for a file that cannot be read."""
    try:
        with (directory / file.path).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256")
    except FileNotFoundError:
        return FileState.MISSING
    return FileState.WHOLE if digest.hexdigest() == file.sha256 else FileState.OTHER


def download(
    client: httpx.Client, directory: Path, file: DataFile, received: Callable[[int], None] = lambda _: None
) -> None:
    """Fetch a file that has an address, and put it in its place once it is whole.

    Parameters
    ----------
    received
        Called with the number of bytes of each part that has come.

    Raises
    ------
    DownloadError
        When the address is gone, does not answer, or holds other bytes than were published.
    OSError
        When the file cannot be written.
    """
    assert file.address is not None
    target = directory / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.part")
    digest, size = hashlib.sha256(), 0
    try:
        with draft.open("wb") as out, client.stream("GET", file.address) as answer:
            if answer.status_code in _GONE:
                raise DownloadError(f"the address is gone: {file.address}")
            answer.raise_for_status()
            for chunk in answer.iter_bytes(_CHUNK_BYTES):
                size += len(chunk)
                if size > file.size:
                    break
                digest.update(chunk)
                out.write(chunk)
                received(len(chunk))
        if size != file.size or digest.hexdigest() != file.sha256:
            raise DownloadError(f"it holds other bytes than it did: {file.address}")
        draft.replace(target)
    except httpx.HTTPError as error:
        raise DownloadError(f"{file.address} cannot be read: {str(error) or type(error).__name__}") from error
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def open_client() -> httpx.Client:
    """Return a client that follows redirects and heeds the proxy settings of the environment."""
    return httpx.Client(follow_redirects=True, timeout=_TIMEOUT_S)
