"""Fixtures of the tests of CASES.md: those of the HTTP contract and of the owner's runtime."""

# ruff: noqa: PLC0414
from tests.contract.conftest import api as api
from tests.contract.conftest import federation as federation
from tests.integration.test_workers_runtime import make_bench as make_bench
