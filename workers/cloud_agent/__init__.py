"""Leases as instances of a real cloud: drivers, and the agent that makes cloud and leases agree."""
