"""Store checkpoints in the federation's bucket, so that instances that share no file system find them.

Each is an archive in parts (``broker.jobs.state_archive``), written and read by addresses that are signed for
one file each. A copy of the last ones stays in the directory, from which this machine restores them.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO

import httpx

from broker.client import ClientError
from broker.jobs.bucket import KEPT, BucketError
from broker.jobs.models import StateRequest
from broker.jobs.state_archive import StateArchiveError, pack, unpack
from workers.node_agent.process.checkpoints import CheckpointStore
from workers.node_agent.process.driver_protocol import DriverError, StoredCheckpoint
from workers.node_agent.process.task_files import read_json, write_json

#: Returns addresses of files of a job's state; raises ClientError or BucketError.
Sign = Callable[[str, StateRequest], Sequence[str]]

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_TRIES, _PAUSE_S = 4, 1.0
_BLOCK = 1 << 20


class BucketCheckpoints(CheckpointStore):
    """Makes, restores and removes checkpoints; the bucket has what the directory has, and more."""

    def __init__(self, directory: Path, sign: Sign, http: httpx.Client | None = None):
        super().__init__(directory)
        self._sign, self._http = sign, http or httpx.Client(timeout=_TIMEOUT)

    def _publish(self, draft: Path, checkpoint: StoredCheckpoint, abandoned: Callable[[], bool]) -> None:
        job, work = draft.parent.parent.name, draft.parent.name
        sent: list[str] = []

        def send(part: IO[bytes]) -> None:
            if abandoned():
                raise DriverError("there was no time to keep its state")
            name = f"part-{len(sent):05d}"
            self._upload(job, work, checkpoint.number, name, part)
            sent.append(name)

        pack(draft / "files", self.directory, send)
        described = {**asdict(checkpoint), "parts": len(sent)}
        with tempfile.TemporaryFile(dir=self.directory) as file:
            file.write(json.dumps(described).encode())
            self._upload(job, work, checkpoint.number, KEPT, file)

    def restore(self, job: str, work: str, number: int, target: Path, owner: int | None) -> None:
        """Copy a checkpoint into a new directory, from the bucket if this machine did not make it."""
        place = self.directory_of(job, work) / str(number)
        if read_json(place / "kept.json") is None:
            self._fetch(job, work, number, place)
        super().restore(job, work, number, target, owner)

    def _fetch(self, job: str, work: str, number: int, place: Path) -> None:
        """Copy a checkpoint from the bucket into its place in the directory.

        Agents that share the directory may do so at once; the first one counts.
        """
        draft = Path(tempfile.mkdtemp(prefix="fetched-", dir=self.make_place(job, work)))
        try:
            with self._download(job, work, number, KEPT) as file:
                described = json.load(file)
            names = [f"part-{part:05d}" for part in range(int(described.pop("parts")))]
            unpack(self._download_all(job, work, number, names), draft / "files")
            write_json(draft / "kept.json", asdict(StoredCheckpoint(**described)))
            with suppress(OSError):
                draft.rename(place)
        except (StateArchiveError, ValueError, TypeError, KeyError, OSError) as error:
            raise DriverError(f"state {number} of {work} cannot be used: {error}") from error
        finally:
            self.trash.discard(draft)

    def _download_all(self, job: str, work: str, number: int, names: Sequence[str]) -> Iterator[IO[bytes]]:
        for name in names:
            yield self._download(job, work, number, name)

    def _upload(self, job: str, work: str, number: int, name: str, content: IO[bytes]) -> None:
        size = content.seek(0, 2)

        def put(url: str) -> None:
            content.seek(0)
            answer = self._http.put(
                url, content=iter(lambda: content.read(_BLOCK), b""), headers={"Content-Length": str(size)}
            )
            answer.raise_for_status()

        self._try("write", job, work, number, name, put)

    def _download(self, job: str, work: str, number: int, name: str) -> IO[bytes]:
        file = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115  (whoever reads it closes it)

        def get(url: str) -> None:
            file.seek(0)
            file.truncate()
            with self._http.stream("GET", url) as answer:
                answer.raise_for_status()
                for block in answer.iter_bytes(_BLOCK):
                    file.write(block)
            file.seek(0)

        try:
            self._try("read", job, work, number, name, get)
        except DriverError:
            file.close()
            raise
        return file

    def _try(
        self, action: str, job: str, work: str, number: int, name: str, call: Callable[[str], None]
    ) -> None:
        """Call with the address of a file, again a few times while that fails.

        Raises
        ------
        DriverError
            When it fails every time, or would; the message has no address, which is a secret.
        """
        wanted = StateRequest.model_validate(
            {"action": action, "work": work, "checkpoint": number, "files": (name,)}
        )
        what = f"the bucket did not {action} state {number} of {work}"
        for left in reversed(range(_TRIES)):
            try:
                call(self._sign(job, wanted)[0])
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if not left or status < 500:
                    raise DriverError(f"{what}: its store answered {status}") from None
            except httpx.TransportError as error:
                if not left:
                    raise DriverError(f"{what}: {type(error).__name__}") from None
            except (ClientError, BucketError) as error:
                raise DriverError(f"{what}: {error}") from error
            else:
                return
            time.sleep(_PAUSE_S)
