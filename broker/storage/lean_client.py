"""The asyncio client of Redis without what redis-py does beside each command.

redis-py packs commands in Python, which takes a tenth of the time that an admission in a list costs the API.
It sends each command in a task of its own, to limit the time of that, and counts commands and connections for
OpenTelemetry, which nobody here reads: a third of the time of a command.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import hiredis
import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.sentinel import SentinelManagedConnection, SentinelManagedSSLConnection
from redis.exceptions import DataError

#: Bytes that a connection keeps for a server that is slow to read them, before its sender waits.
_SENT_AHEAD_BYTES = 65_536


class LeanRedis(redis.asyncio.Redis):
    """A client that sends each command once, on any connection of its pool."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Execute a command and return its parsed response."""
        pool = self.connection_pool
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.send_command(*args)
            return await self.parse_response(connection, args[0], **options)
        except (redis.ConnectionError, redis.TimeoutError):
            await connection.disconnect()
            raise
        finally:
            await pool.release(connection)


class _Lean(AbstractConnection):
    """Packs commands with hiredis, and waits for the server only with much unsent."""

    def pack_command(self, *args: Any) -> list[bytes]:
        """Pack a command; its name may be several words for the server, as in ``CONFIG GET``."""
        name = args[0].encode() if isinstance(args[0], str) else args[0]
        try:
            return [hiredis.pack_command((*name.split(), *args[1:]))]
        except TypeError as error:
            raise DataError(str(error)) from error

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        """Send a command; whether the connection is lost is found out when its response is read."""
        if check_health and self.is_connected:
            await self.check_health()  # type: ignore[no-untyped-call]
            check_health = False
        writer = self._writer
        if isinstance(command, list) and self.is_connected and writer is not None:
            if writer.transport.is_closing():  # uvloop raises RuntimeError
                raise redis.ConnectionError("the connection has ended")
            writer.writelines(command)
            if writer.transport.get_write_buffer_size() <= _SENT_AHEAD_BYTES:
                return
            command = []
        await super().send_packed_command(command, check_health)


class _Tcp(_Lean, Connection):
    pass


class _Tls(_Lean, SSLConnection):
    pass


class _Unix(_Lean, UnixDomainSocketConnection):
    pass


class _Sentinel(_Lean, SentinelManagedConnection):
    pass


class _SentinelTls(_Lean, SentinelManagedSSLConnection):
    pass


_LEAN = {
    Connection: _Tcp,
    SSLConnection: _Tls,
    UnixDomainSocketConnection: _Unix,
    SentinelManagedConnection: _Sentinel,
    SentinelManagedSSLConnection: _SentinelTls,
}


def make_lean_client(pool: redis.asyncio.ConnectionPool) -> redis.asyncio.Redis:
    """Return a client of a pool without connections, which are lean from now on."""
    pool.connection_class = _LEAN[pool.connection_class]
    return LeanRedis.from_pool(pool)
