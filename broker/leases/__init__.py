"""Leases as they are kept in Redis, and pages of them."""
