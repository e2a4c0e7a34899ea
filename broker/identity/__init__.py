"""Knows who uses a federation, and decides what they may do.

- ``permissions``: principals, their roles, and ``authorize``, which decides. Pure.
- ``store``: members and their API keys in Redis, with the audit log.
- ``redis_acl``: the users of a shared Redis, and their rights to its keys.
"""
