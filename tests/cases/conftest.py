"""Fixtures of the tests of CASES.md: those of the HTTP contract and of the owner's runtime."""
