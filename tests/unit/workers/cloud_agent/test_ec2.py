"""The driver of the EC2 API, against moto's server over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from werkzeug.wrappers import Response

from tests.unit.workers.cloud_agent.ec2_server import IMAGE, Ec2Scene, ec2_scene, error
from tests.unit.workers.cloud_agent.exam import InstanceDriverExam, wanted
from workers.cloud_agent.check import list_faults
from workers.cloud_agent.drivers import ec2
from workers.cloud_agent.drivers.base import (
    CloudInstance,
    InstanceDriver,
    InstanceError,
    InstanceState,
    NoRoomError,
    RefusedError,
)
from workers.cloud_agent.tags import InstanceTags


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Scene]:
    with ec2_scene(tmp_path, monkeypatch) as made:
        yield made


class TestExam(InstanceDriverExam):
    @pytest.fixture
    def scene(self, scene: Ec2Scene) -> Ec2Scene:
        return scene


@pytest.fixture
def driver(scene: Ec2Scene) -> InstanceDriver:
    return scene.driver()


def by_lease(driver: InstanceDriver) -> dict[str | None, CloudInstance]:
    return {one.lease: one for one in driver.list_instances()}


def asked(scene: Ec2Scene, action: str) -> dict[str, str]:
    """The last request for that."""
    return [one for one in scene.front.seen if one.get("Action") == action][-1]


def test_all_pages_are_read(scene: Ec2Scene, driver: InstanceDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ec2, "PAGE", 5)
    names = {scene.foreign(1) for _ in range(12)}
    assert {one.id for one in driver.list_instances()} == names
    assert "NextToken" in asked(scene, "DescribeInstances")


def test_a_stopped_instance_is_none_of_a_lease_and_is_terminated_with_it(
    scene: Ec2Scene, driver: InstanceDriver
) -> None:
    driver.start(wanted())
    scene.ec2.stop_instances(InstanceIds=[by_lease(driver)["q-1.1"].id])
    stopped = by_lease(driver)["q-1.1"]
    assert stopped.state is InstanceState.ENDED
    assert stopped.why is not None
    assert "User initiated" in stopped.why
    driver.end("q-1.1")
    (found,) = scene.ec2.describe_instances(InstanceIds=[stopped.id])["Reservations"][0]["Instances"]
    assert found["State"]["Name"] == "terminated"


def test_cores_of_foreign_sizes(scene: Ec2Scene) -> None:
    """Of the file first, else as the cloud describes the size; and nobody knows the cores of some."""
    for size in ("m5.2xlarge", "c5.large", "m5.xlarge"):
        scene.ec2.run_instances(ImageId=IMAGE, InstanceType=size, MinCount=1, MaxCount=1)
    driver = scene.driver(foreign_sizes={"c5.large": 77})
    assert {one.size: one.cores for one in driver.list_instances()} == {
        "m5.2xlarge": 8,
        "c5.large": 77,
        "m5.xlarge": 4,
    }
    scene.front.given["DescribeInstanceTypes"] = error("UnauthorizedOperation", "You are not authorized", 403)
    assert {one.size: one.cores for one in scene.driver().list_instances()}["m5.2xlarge"] is None


def test_where_an_instance_goes(scene: Ec2Scene) -> None:
    subnet = scene.ec2.describe_subnets()["Subnets"][0]
    group = scene.ec2.create_security_group(GroupName="g", Description="g", VpcId=subnet["VpcId"])["GroupId"]
    scene.ec2.create_key_pair(KeyName="k")
    scene.driver(subnet=subnet["SubnetId"], security_groups=[group], key_name="k").start(wanted())
    (found,) = scene.ec2.describe_instances()["Reservations"][0]["Instances"]
    assert (found["SubnetId"], found["KeyName"]) == (subnet["SubnetId"], "k")
    assert [one["GroupId"] for one in found["SecurityGroups"]] == [group]
    assert asked(scene, "RunInstances")["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_a_spot_instance_of_the_cloud_tells_when_it_is_taken_back(scene: Ec2Scene) -> None:
    """Two minutes after it was marked."""
    driver = scene.driver(spot=True)
    driver.start(wanted())
    driver.start(wanted("q-2.1"))
    assert asked(scene, "RunInstances")["InstanceMarketOptions.MarketType"] == "spot"
    assert {one.ends_at for one in driver.list_instances()} == {None}
    described = DESCRIBED.format(
        name=by_lease(driver)["q-1.1"].id, request="sir-1", tags=TAGS.format(lease="q-1.1")
    )
    scene.front.given["DescribeInstances"] = Response(described, mimetype="text/xml")
    scene.front.given["DescribeSpotInstanceRequests"] = Response(MARKED, mimetype="text/xml")
    (marked,) = driver.list_instances()
    assert marked.ends_at == datetime(2026, 7, 1, 12, 2, tzinfo=UTC).timestamp()
    assert marked.cores == 6
    assert asked(scene, "DescribeSpotInstanceRequests")["Filter.1.Value.1"] == "marked-for-termination"


def test_what_is_sold_on_demand_is_no_spot_instance(scene: Ec2Scene) -> None:
    driver = scene.driver(spot=True)
    driver.start(wanted(is_preemptible=False))
    assert "InstanceMarketOptions.MarketType" not in asked(scene, "RunInstances")


def test_what_errors_mean(scene: Ec2Scene, driver: InstanceDriver) -> None:
    kinds = {
        "InsufficientInstanceCapacity": NoRoomError,
        "InsufficientFreeAddressesInSubnet": NoRoomError,
        "InstanceLimitExceeded": RefusedError,
        "VcpuLimitExceeded": RefusedError,
        "UnauthorizedOperation": RefusedError,
        "InvalidAMIID.NotFound": RefusedError,
        "OptInRequired": RefusedError,
        "RequestLimitExceeded": InstanceError,
        "RequestExpired": InstanceError,
        "Unavailable": InstanceError,
        "InternalError": InstanceError,
    }
    for code, kind in kinds.items():
        scene.front.given["RunInstances"] = error(code, "Because.", 400)
        with pytest.raises(InstanceError, match=f"^{code}: Because") as told:
            driver.start(wanted())
        assert type(told.value) is kind


def test_an_instance_that_vanishes_while_it_is_ended_has_ended(
    scene: Ec2Scene, driver: InstanceDriver
) -> None:
    driver.start(wanted())
    scene.front.given["TerminateInstances"] = error("InvalidInstanceID.NotFound", "It does not exist", 400)
    driver.end("q-1.1")


class TestEucalyptus:
    """Its dialect. moto knows no filter of client tokens, so answers of that form are given here."""

    @pytest.fixture
    def driver(self, scene: Ec2Scene) -> InstanceDriver:
        return scene.driver(dialect="eucalyptus", all_users=True)

    def given(self, scene: Ec2Scene, tags: str, token: str) -> None:
        text = DESCRIBED.format(name="i-5e4d3c2b", request="", tags=tags)
        text = text.replace("<clientToken/>", f"<clientToken>{token}</clientToken>")
        scene.front.given["DescribeInstances"] = Response(text, mimetype="text/xml")

    def test_an_instance_is_tagged_after_it_was_started(
        self, scene: Ec2Scene, driver: InstanceDriver
    ) -> None:
        scene.front.given["DescribeInstances"] = Response(NOTHING, mimetype="text/xml")
        scene.front.given["DescribeInstanceTypes"] = Response(
            SIZES.replace("m1.small", "t2.micro"), mimetype="text/xml"
        )
        driver.start(wanted())
        token = asked(scene, "RunInstances")["ClientToken"]
        filters = asked(scene, "DescribeInstances")
        assert (filters["Filter.1.Name"], filters["Filter.1.Value.1"]) == ("client-token", token)
        assert not any(name.startswith("TagSpecification") for name in asked(scene, "RunInstances"))
        del scene.front.given["DescribeInstances"]
        (found,) = scene.ec2.describe_instances()["Reservations"][0]["Instances"]
        assert {"Key": "spotfed:lease", "Value": "q-1.1"} in found["Tags"]

    def test_one_that_was_never_tagged_is_ended_or_taken_up(
        self, scene: Ec2Scene, driver: InstanceDriver
    ) -> None:
        """Its agent was killed between the two calls: it is not foreign, and whose it is is not known."""
        token = InstanceTags("spotfed", "A").make_token("q-1.1")
        self.given(scene, "", token)
        (found,) = driver.list_instances()
        assert found.lease == token
        for lease in (token, "q-1.1"):
            scene.front.given["TerminateInstances"] = error("InternalError", "ask again", 500)
            with pytest.raises(InstanceError, match="ask again"):
                driver.end(lease)
            assert asked(scene, "TerminateInstances")["InstanceId.1"] == "i-5e4d3c2b"
        scene.front.given["CreateTags"] = Response(TAGGED, mimetype="text/xml")
        driver.start(wanted())
        assert asked(scene, "CreateTags")["ResourceId.1"] == "i-5e4d3c2b"
        assert asked(scene, "CreateTags")["Tag.1.Value"] == "q-1.1"
        assert not any(one.get("Action") == "RunInstances" for one in scene.front.seen)
        self.given(scene, "", InstanceTags("spotfed", "B").make_token("q-1.1"))
        assert [one.lease for one in driver.list_instances()] == [None]

    def test_instances_of_all_accounts_are_asked_for(self, scene: Ec2Scene, driver: InstanceDriver) -> None:
        self.given(scene, TAGS.format(lease="q-1.1"), InstanceTags("spotfed", "A").make_token("q-1.1"))
        (found,) = driver.list_instances()
        assert (found.lease, found.addresses) == ("q-1.1", ("203.0.113.7", "10.0.0.7"))
        assert asked(scene, "DescribeInstances")["InstanceId.1"] == "verbose"
        assert "MaxResults" not in asked(scene, "DescribeInstances")

    def test_its_administrators_are_told_what_is_free(self, scene: Ec2Scene, driver: InstanceDriver) -> None:
        scene.front.given["DescribeAvailabilityZones"] = Response(ZONES, mimetype="text/xml")
        assert driver.count_free() == {"m1.small": 14, "m1.large": 3}
        assert asked(scene, "DescribeAvailabilityZones")["ZoneName.1"] == "verbose"
        assert driver.free_cores() == 14
        one_zone = scene.driver(dialect="eucalyptus", zone="two")
        assert (one_zone.count_free(), one_zone.free_cores()) == ({"m1.small": 8, "m1.large": 2}, 8)
        assert (scene.driver().count_free(), scene.driver().free_cores()) == ({}, None)
        plain = (
            ZONES.partition("<item><zoneName>|")[0]
            + "</availabilityZoneInfo></DescribeAvailabilityZonesResponse>"
        )
        scene.front.given["DescribeAvailabilityZones"] = Response(plain, mimetype="text/xml")
        assert (driver.count_free(), driver.free_cores()) == ({}, None)
        faults = list(list_faults(driver))
        assert "capacity: the cloud does not tell its capacity" in faults

    def test_a_size_of_an_instance_may_be_told_by_its_options(self, scene: Ec2Scene) -> None:
        self.given(scene, "", "")
        assert scene.driver(dialect="eucalyptus").list_instances()[0].cores == 6  # its cpuOptions come first


NS = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
NOTHING = (
    f"<DescribeInstancesResponse {NS}><requestId>1</requestId><reservationSet/></DescribeInstancesResponse>"
)
TAGGED = f"<CreateTagsResponse {NS}><requestId>1</requestId><return>true</return></CreateTagsResponse>"
TAGS = (
    "<tagSet><item><key>spotfed:lease</key><value>{lease}</value></item>"
    "<item><key>spotfed:cloud</key><value>A</value></item></tagSet>"
)
DESCRIBED = f"""<DescribeInstancesResponse {NS}><requestId>1</requestId><reservationSet><item>
<instancesSet><item><instanceId>{{name}}</instanceId><instanceState><code>16</code><name>running</name></instanceState>
<instanceType>c9.odd</instanceType><clientToken/><ipAddress>203.0.113.7</ipAddress>
<privateIpAddress>10.0.0.7</privateIpAddress><spotInstanceRequestId>{{request}}</spotInstanceRequestId>
<cpuOptions><coreCount>3</coreCount><threadsPerCore>2</threadsPerCore></cpuOptions>{{tags}}
</item></instancesSet></item></reservationSet></DescribeInstancesResponse>"""
MARKED = f"""<DescribeSpotInstanceRequestsResponse {NS}><requestId>1</requestId><spotInstanceRequestSet><item>
<spotInstanceRequestId>sir-1</spotInstanceRequestId><state>active</state><status>
<code>marked-for-termination</code><updateTime>2026-07-01T12:00:00.000Z</updateTime>
<message>Your Spot Instance is marked for termination.</message></status>
</item></spotInstanceRequestSet></DescribeSpotInstanceRequestsResponse>"""
SIZES = """<DescribeInstanceTypesResponse xmlns="http://msgs.eucalyptus.com/2015-10-01"><instanceTypeDetails>
<item><name>m1.small</name><cpu>1</cpu></item><item><name>m1.large</name><cpu>4</cpu></item>
</instanceTypeDetails></DescribeInstanceTypesResponse>"""
#: As `euca-describe-availability-zones verbose` prints it.
ZONES = """<DescribeAvailabilityZonesResponse xmlns="http://msgs.eucalyptus.com/2015-10-01"><availabilityZoneInfo>
<item><zoneName>one</zoneName><zoneState>arn:euca:eucalyptus:one:cluster:one_cc/</zoneState></item>
<item><zoneName>|- vm types</zoneName><zoneState>free / max   cpu   ram  disk</zoneState></item>
<item><zoneName>|- m1.small</zoneName><zoneState>0006 / 0016   1    256     5</zoneState></item>
<item><zoneName>|- m1.large</zoneName><zoneState>0001 / 0004   4   1024    10</zoneState></item>
<item><zoneName>two</zoneName><zoneState>arn:euca:eucalyptus:two:cluster:two_cc/</zoneState></item>
<item><zoneName>|- vm types</zoneName><zoneState>free / max   cpu   ram  disk</zoneState></item>
<item><zoneName>|- m1.small</zoneName><zoneState>0008 / 0016   1    256     5</zoneState></item>
<item><zoneName>|- m1.large</zoneName><zoneState>0002 / 0004   4   1024    10</zoneState></item>
</availabilityZoneInfo></DescribeAvailabilityZonesResponse>"""
