"""The bucket of saved states of jobs, in any store that speaks S3: ``<prefix>/<job>/<work>/<n>/<file>``.

A state is an archive in parts, and ``kept.json``, which is written last: a state without it does not count.
Only the API and the federation's own processes have credentials. Instances get addresses that are signed for
one file each (``sign``).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from broker.settings import Settings, SettingsError

if TYPE_CHECKING:
    from broker.jobs.models import StateRequest

#: Seconds for which a signed address works.
LINK_S = 3_600
KEPT = "kept.json"
#: States of a piece of work that stay when another one is written: those that a job manager may still name.
_STAY = 2
_RETRIES = 2
_METHODS = {"read": "get_object", "write": "put_object"}


class BucketError(Exception):
    """The store of the bucket did not do it; the message says what is wrong."""


class Bucket:
    """The bucket that the settings name. Safe to use from several threads; its methods block."""

    def __init__(self, name: str, prefix: str, endpoint: str | None):
        self.name, self._prefix, self._endpoint = name, prefix, endpoint
        self._lock = threading.Lock()

    @classmethod
    def from_settings(cls, settings: Settings) -> Bucket | None:
        """Return the bucket, None if the settings name none.

        Raises
        ------
        SettingsError
            When boto3 is not installed.
        """
        if settings.jobs_bucket is None:
            return None
        try:
            import boto3  # noqa: F401
        except ImportError as error:
            raise SettingsError("SPOTFED_JOBS_BUCKET needs boto3: pip install spotfed[buckets]") from error
        parts = urlsplit(settings.jobs_bucket)
        return cls(parts.netloc, parts.path.strip("/"), settings.jobs_bucket_url)

    @cached_property
    def _client(self) -> Any:
        import boto3
        from botocore.config import Config

        style = "virtual" if self._endpoint is None else "path"
        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": style},
            connect_timeout=5,
            read_timeout=20,
            retries={"mode": "standard", "total_max_attempts": 1 + _RETRIES},
        )
        session = boto3.session.Session()
        region = session.region_name or "us-east-1"
        with self._lock:  # making a client is not safe
            return session.client("s3", endpoint_url=self._endpoint, region_name=region, config=config)

    def sign(self, job: str, request: StateRequest) -> Sequence[str]:
        """Return addresses by which files of a state can be read or written without credentials.

        Raises
        ------
        BucketError
            When there are no credentials to sign with.
        """
        base = self._key(job, request.work, str(request.checkpoint))
        with _errors():
            return [
                self._client.generate_presigned_url(
                    _METHODS[request.action],
                    Params={"Bucket": self.name, "Key": f"{base}/{file}"},
                    ExpiresIn=LINK_S,
                )
                for file in request.files
            ]

    def list_states(self, job: str, work: str) -> dict[int, list[str]]:
        """Return the states of a piece of work that are complete: the names of their parts, by number.

        Raises
        ------
        BucketError
            When the store does not answer.
        """
        base = self._key(job, work, "")
        files: defaultdict[int, list[str]] = defaultdict(list)
        for key, _ in self._list(base):
            number, _, file = key.removeprefix(base).partition("/")
            if number.isdigit():
                files[int(number)].append(file)
        return {
            number: sorted(set(names) - {KEPT}) for number, names in sorted(files.items()) if KEPT in names
        }

    def drop_before(self, job: str, work: str, checkpoint: int) -> None:
        """Remove the states of a piece of work that are too old to be named when another one is written.

        Raises
        ------
        BucketError
            When the store does not answer.
        """
        for number in self.list_states(job, work):
            if number < checkpoint - _STAY:
                self._drop(key for key, _ in self._list(self._key(job, work, f"{number}/")))

    def drop_old(self, open_jobs: Collection[str], before: datetime) -> list[str]:
        """Remove the states of jobs that are not open and have not changed since ``before``; return the jobs.

        Raises
        ------
        BucketError
            When the store does not answer.
        """
        base = f"{self._prefix}/" if self._prefix else ""
        changed: dict[str, datetime] = {}
        for key, at in self._list(base):
            job, slash, _ = key.removeprefix(base).partition("/")
            if slash and job not in open_jobs:
                changed[job] = max(at, changed.get(job, at))
        old = [job for job, at in changed.items() if at < before]
        for job in old:
            self._drop(key for key, _ in self._list(f"{base}{job}/"))
        return old

    def _key(self, *parts: str) -> str:
        return "/".join((self._prefix, *parts) if self._prefix else parts)

    def _list(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        with _errors():
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.name, Prefix=prefix):
                for entry in page.get("Contents", ()):
                    yield entry["Key"], entry["LastModified"]

    def _drop(self, keys: Iterator[str]) -> None:
        with _errors():
            for key in keys:
                self._client.delete_object(Bucket=self.name, Key=key)


@contextmanager
def _errors() -> Iterator[None]:
    """Turn the errors of boto3 into BucketError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise BucketError(str(error)) from error
