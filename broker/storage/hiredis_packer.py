"""Connections of redis-py's asyncio client that pack commands in C, as those of its other client do.

A list of requests is a script with thousands of arguments: packed in Python they are a tenth of what an
admission costs the API.
"""

from __future__ import annotations

from typing import Any

import hiredis
import redis.asyncio
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import DataError


class _Packing:
    def pack_command(self, *args: Any) -> list[bytes]:
        """The command as it is sent; what is one word in redis-py may be several for the server."""
        name = args[0].encode() if isinstance(args[0], str) else args[0]
        try:
            return [hiredis.pack_command((*name.split(), *args[1:]))]
        except TypeError as error:
            raise DataError(str(error)) from error


class _Tcp(_Packing, Connection):
    pass


class _Tls(_Packing, SSLConnection):
    pass


class _Unix(_Packing, UnixDomainSocketConnection):
    pass


_PACKING = {Connection: _Tcp, SSLConnection: _Tls, UnixDomainSocketConnection: _Unix}


def packing(client: redis.asyncio.Redis) -> redis.asyncio.Redis:
    """The client, whose connections pack so from now on."""
    pool = client.connection_pool
    pool.connection_class = _PACKING[pool.connection_class]
    return client
