"""Which flavour of a real cloud meets a request."""

from __future__ import annotations

import pytest

from cloudsim.model.flavours import CloudFlavour, find_flavour

SMALL = CloudFlavour("m1.small", 1, (("memory_mb", 2000),))
LARGE = CloudFlavour("m1.large", 4, (("memory_mb", 8000),))
GPU = CloudFlavour("g1.large", 4, (("gpus", 1), ("memory_mb", 64000)), frozenset({("zone", "north")}))
NODE = CloudFlavour("n1", 16, (("memory_mb", 32000),), is_divisible=True)
ALL = (SMALL, LARGE, GPU)


@pytest.mark.parametrize(
    ("flavour", "cores", "amounts", "labels", "name"),
    [
        (SMALL, 1, {}, {}, None),
        (LARGE, 4, {"memory_mb": 8000}, {}, None),
        (GPU, 4, {"memory_mb": 8001}, {}, None),
        (GPU, 4, {"gpus": 1}, {"zone": "north"}, None),
        (GPU, 4, {}, {}, "g1.large"),
    ],
)
def test_the_first_that_has_all_of_it(
    flavour: CloudFlavour, cores: int, amounts: dict[str, int], labels: dict[str, str], name: str | None
) -> None:
    needs = tuple(amounts.items()), frozenset(labels.items())
    assert find_flavour(ALL, cores, *needs, name) is flavour


def test_why_there_is_none() -> None:
    assert find_flavour(ALL, 3) == "leases get no instance of 3 cores here, but of 1, 4"
    assert find_flavour((), 3) == "leases get no instance of 3 cores here, but of no size at all"
    assert find_flavour(ALL, 1, name="x1") == "leases get no instance of the flavour x1"
    assert find_flavour(ALL, 1, name="g1.large") == "leases get no instance of 1 cores here, but of 4"
    nearest = find_flavour(ALL, 4, (("gpus", 2), ("memory_mb", 9000)), frozenset({("zone", "north")}))
    assert nearest == "no flavour of 4 cores has all of this: g1.large lacks gpus=2"


def test_an_instance_takes_a_part_of_what_is_divisible() -> None:
    assert find_flavour([NODE], 3, (("memory_mb", 32000),)) is NODE
    assert find_flavour([NODE], 17) == "leases get no instance of 17 cores here, but of up to 16"
