"""Leases: ``store`` reads them from Redis, ``pages`` walks through all of them, ``instances`` their
instances."""
