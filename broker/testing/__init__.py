"""An in-memory federation for tests of programs that use ``broker.client``.

- ``cloud``: a cloud with nodes, a fixed promise and youngest-first eviction.
- ``federation``: such clouds behind the HTTP API of a real ``Client``, without a server or Redis.
"""

from broker.testing.cloud import FakeCloud
from broker.testing.federation import InMemoryFederation

__all__ = ["FakeCloud", "InMemoryFederation"]
