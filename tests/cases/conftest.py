"""Fixtures of the tests of the numbered cases: those of the HTTP contract and of the owner's process."""

from tests.contract.conftest import api, federation
from tests.integration.conftest import make_bench

__all__ = ["api", "federation", "make_bench"]
