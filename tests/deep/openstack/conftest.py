"""One OpenStack for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deep.openstack.real_openstack import RealOpenStack, real_openstack


@pytest.fixture(scope="package")
def nova() -> Iterator[RealOpenStack]:
    with real_openstack() as cloud:
        yield cloud
