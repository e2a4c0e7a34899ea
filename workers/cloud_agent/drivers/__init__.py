"""Drivers of real clouds, one module a kind of cloud."""
