"""A server with an ACL file, on a Unix socket, for tests that need users of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from broker.storage.connections import connect
from broker.storage.embedded_server import find_server
from tests.support.wait import wait_until

ADMIN = "user admin on >pw ~* &* +@all"


@contextmanager
def server_with_acl(directory: Path) -> Iterator[tuple[str, Path]]:
    """The address of the server without a login, and its ACL file; at first there is only an ``admin``."""
    acl, path = directory / "users.acl", directory / "acl.sock"
    acl.write_text(f"user default off\n{ADMIN}\n")
    command = [str(find_server()), "--port", "0", "--unixsocket", str(path), "--aclfile", str(acl)]
    command += ["--save", "", "--dir", str(directory), "--maxmemory-policy", "noeviction"]
    with (directory / "acl.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    address = f"unix://{path}?db=0"

    def answers() -> bool:
        try:
            with connect(address, username="admin", password="pw") as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    try:
        wait_until(answers, "the server")
        yield address, acl
    finally:
        process.kill()
        process.wait()
