"""How much spot one origin may hold on a cloud."""

from pathlib import Path

import pytest

from cloudsim.admission.origin_caps import NO_CAPS, SpotCaps
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.federation.file import load_federation
from cloudsim.model.errors import SpecError
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request


def wish(name: str, cores: int, origin: str = "B") -> Request:
    return Request(name, Kind.SPOT, cores, 3600.0, origin=origin)


def test_an_origin_is_refused_above_its_cap_and_others_are_not() -> None:
    cloud = Cloud(CloudSpec("A", (16,), spot_caps=SpotCaps(4, (("C", 8),))))
    assert not isinstance(cloud.admit(wish("b1", 3), 0.0), Refusal)
    refused = cloud.quote(wish("b2", 2))
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.free_slots) == (RefusalReason.OVER_SPOT_CAP, 6)
    assert isinstance(cloud.admit(wish("b2", 2), 1.0), Refusal)
    assert isinstance(cloud.quote(wish("b3", 1)), Quote)
    assert isinstance(cloud.quote(wish("c1", 8, "C")), Quote)
    assert isinstance(cloud.quote(wish("c1", 9, "C")), Refusal)


def test_what_has_ended_counts_no_longer_and_on_demand_never() -> None:
    cloud = Cloud(CloudSpec("A", (16,), spot_caps=SpotCaps(4)))
    cloud.start_on_demand(Request("own", Kind.ON_DEMAND, 8, 3600.0, origin="B"), 0.0)
    assert not isinstance(cloud.admit(wish("b1", 4), 0.0), Refusal)
    assert isinstance(cloud.quote(wish("b2", 1)), Refusal)
    cloud.advance(4000.0)
    assert isinstance(cloud.quote(wish("b2", 4)), Quote)


def test_what_is_wrong_with_the_request_itself_is_told_first() -> None:
    cloud = Cloud(CloudSpec("A", (4,), spot_caps=SpotCaps(0)))
    answer = cloud.quote(wish("b", 5))
    assert isinstance(answer, Refusal)
    assert answer.reason is RefusalReason.TOO_LARGE


def federation(tmp_path: Path, caps: str) -> SpotCaps:
    (tmp_path / "a.toml").write_text(
        '[[cloud]]\nid = "A"\nnodes = "2x4"\n'
        f'trace = {{ synthetic = "table-1", hours = 24, seed = 1 }}\n{caps}\n'
    )
    return load_federation(tmp_path / "a.toml", None).clouds[0].spec.spot_caps


def test_a_federation_file_names_caps(tmp_path: Path) -> None:
    assert federation(tmp_path, "") == NO_CAPS
    assert federation(tmp_path, "spot_cap_cores = 8\nspot_caps = { C = 2, B = 4 }") == SpotCaps(
        8, (("B", 4), ("C", 2))
    )


@pytest.mark.parametrize(
    ("caps", "field"),
    [
        ("spot_cap_cores = -1", "spot_cap_cores"),
        ("spot_cap_cores = true", "spot_cap_cores"),
        ("spot_caps = { B = 1.5 }", "spot_caps.B"),
        ("spot_caps = 3", "spot_caps"),
    ],
)
def test_a_cap_that_is_no_number_of_cores_is_named(tmp_path: Path, caps: str, field: str) -> None:
    with pytest.raises(SpecError, match=field.replace(".", r"\.")):
        federation(tmp_path, caps)
