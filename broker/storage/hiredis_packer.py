"""Makes redis-py's asyncio client pack commands in C, as its other client does.

A list of requests is a script call with thousands of arguments: packing it in Python takes a tenth of the
time that an admission costs the API.
"""

from __future__ import annotations

from typing import Any

import hiredis
import redis.asyncio
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import DataError


class _Packing:
    """Packs commands with hiredis."""

    def pack_command(self, *args: Any) -> list[bytes]:
        """Pack a command; its name may be several words for the server, as in ``CONFIG GET``."""
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


def use_hiredis_packer(client: redis.asyncio.Redis) -> redis.asyncio.Redis:
    """Make the connections of a client pack with hiredis from now on, and return the client."""
    pool = client.connection_pool
    pool.connection_class = _PACKING[pool.connection_class]
    return client
