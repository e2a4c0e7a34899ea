"""The prices of a public cloud's market are fetched every hour and kept; its owner starts from them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.session import get_session
from werkzeug.wrappers import Response

from broker.doctor.check import State
from broker.settings import Settings
from cloudsim.federation.file import load_federation
from cloudsim.markets.formats import read
from cloudsim.model.errors import InputError
from tests.support.wait import wait_until
from tests.unit.workers.cloud_agent.ec2_server import Ec2Scene, ec2_scene
from workers.cloud_agent import price_history
from workers.cloud_agent.drivers.base import InstanceError
from workers.cloud_agent.drivers.ec2 import Ec2Driver
from workers.cloud_agent.price_history import (
    Price,
    PriceFiles,
    SpotMarket,
    check_prices,
    fetch_prices,
    find_price_files,
    keep_prices,
)
from workers.owner.__main__ import parser, process_spec

MARKET = SpotMarket("c5.xlarge", "us-east-1b")
BEGAN = datetime(2026, 10, 30, tzinfo=UTC)
NS = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'
ITEM = """<item><instanceType>c5.xlarge</instanceType><productDescription>Linux/UNIX</productDescription>
<spotPrice>{price}</spotPrice><timestamp>2026-10-30T{hour:02}:00:00.000Z</timestamp>
<availabilityZone>us-east-1b</availabilityZone></item>"""
FEDERATION = """
[[cloud]]
id = "public"
nodes = "2x4"
trace = {{ prices = "prices", market = "{market}", bid_usd_per_hour = 0.1 }}

[cloud.instances]
driver = "ec2"
endpoint = "http://127.0.0.1:1"
image = "ami-1"
sizes = {{ 4 = "c5.xlarge" }}
spot = true
"""


def price(hours: float, usd: str = "0.05") -> Price:
    at = BEGAN + timedelta(hours=hours)
    return {
        "AvailabilityZone": MARKET.zone, "InstanceType": MARKET.instance_type, "SpotPrice": usd,
        "ProductDescription": MARKET.product, "Timestamp": f"{at:%Y-%m-%dT%H:%M:%S.000Z}",
    }  # fmt: skip


class Market:
    """A driver whose cloud tells these prices."""

    def __init__(self, *prices: Price):
        self.prices = list(prices)
        self.since: list[datetime] = []
        self.away = False

    def read_prices(self, market: SpotMarket, since: datetime) -> list[Price]:
        assert market == MARKET
        self.since.append(since)
        if self.away:
            raise InstanceError("the cloud does not answer")
        return self.prices


@pytest.fixture
def files(tmp_path: Path) -> PriceFiles:
    return PriceFiles(tmp_path / "prices", MARKET)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Scene]:
    with ec2_scene(tmp_path, monkeypatch) as made:
        yield made


def page(token: str, *items: tuple[str, int]) -> Response:
    listed = "".join(ITEM.format(price=usd, hour=hour) for usd, hour in items)
    text = (
        f"<DescribeSpotPriceHistoryResponse {NS}><requestId>1</requestId>"
        f"<spotPriceHistorySet>{listed}</spotPriceHistorySet><nextToken>{token}</nextToken>"
        "</DescribeSpotPriceHistoryResponse>"
    )
    return Response(text, mimetype="text/xml")


def test_the_driver_reads_all_pages_as_aws_documents_them(scene: Ec2Scene) -> None:
    driver = scene.driver(spot=True)
    assert isinstance(driver, Ec2Driver)
    pages = iter([page("more", ("0.0500", 2)), page("", ("0.0400", 1))])
    answers = scene.front.given = _Pages(pages)
    prices = driver.read_prices(MARKET, BEGAN)
    assert prices == [price(2, "0.0500"), price(1, "0.0400")]
    first, second = (one for one in scene.front.seen if one.get("Action") == "DescribeSpotPriceHistory")
    assert first["StartTime"] == "2026-10-30T00:00:00Z"
    assert second["NextToken"] == "more"
    assert answers.taken == 2
    operation = get_session().get_service_model("ec2").operation_model("DescribeSpotPriceHistory")
    known = {str(one.serialization.get("name")).lower() for one in operation.input_shape.members.values()}
    sent = {name.partition(".")[0].lower() for name in second} - {"action", "version"}
    assert {name for name in sent if not name.startswith(("aws", "signature", "timestamp"))} <= known
    told = operation.output_shape.members["SpotPriceHistory"].member.members
    told_names = {str(one.serialization["name"]) for one in told.values()}
    assert {name[0].lower() + name[1:] for name in price(0)} <= told_names


class _Pages(dict[str, Response]):
    """Answers that a test gives, the next one each time."""

    def __init__(self, pages: Iterator[Response]):
        super().__init__({"DescribeSpotPriceHistory": Response()})
        self._pages, self.taken = pages, 0

    def __getitem__(self, action: str) -> Response:
        self.taken += 1
        return next(self._pages)


def test_prices_are_kept_by_month_and_once(files: PriceFiles) -> None:
    market = Market(price(0), price(47, "0.06"), price(49, "0.20"))
    assert files.latest_at is None
    assert fetch_prices(market, files) == 3
    assert datetime.now(UTC) - market.since[0] > timedelta(days=89)
    market.prices = [price(49, "0.20"), price(50, "0.07")]
    assert fetch_prices(market, files) == 1
    assert market.since[1] == BEGAN + timedelta(hours=49)
    assert fetch_prices(market, files) == 0
    assert sorted(file.name for file in files.directory.iterdir()) == [
        "c5.xlarge-us-east-1b-Linux-UNIX-2026-10.json", "c5.xlarge-us-east-1b-Linux-UNIX-2026-11.json",
    ]  # fmt: skip
    (series,), report = read(files.directory)
    assert series.market == "c5.xlarge/us-east-1b"
    assert series.price_text.tolist() == ["0.05", "0.06", "0.20", "0.07"]
    assert not report.is_unfinished


def test_it_goes_on_after_a_cloud_that_was_away(files: PriceFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_history, "AGAIN_S", 0.01)
    market, stopping = Market(price(0)), threading.Event()
    market.away = True
    thread = threading.Thread(target=keep_prices, args=(market, files, stopping))
    thread.start()
    wait_until(lambda: len(market.since) > 2)
    market.away = False
    wait_until(lambda: files.latest_at)
    stopping.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_check_fetches_them(files: PriceFiles) -> None:
    market = Market(price(0))
    (result,) = check_prices(market, files)
    assert result.state is State.OK
    assert result.found.startswith("c5.xlarge/us-east-1b has prices until 2026-10-30 00:00 in ")
    (result,) = check_prices(Market(), PriceFiles(files.directory / "none", MARKET))
    assert (result.state, result.found) == (
        State.WARNING,
        "there are no prices of c5.xlarge/us-east-1b",
    )
    files.directory.joinpath("c5.xlarge-us-east-1b-Linux-UNIX-2026-10.json").write_text("{")
    (result,) = check_prices(market, files)
    assert result.state is State.WARNING


def test_the_agent_keeps_those_that_the_file_names(tmp_path: Path) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION.format(market="c5.xlarge/us-east-1b"))
    files = find_price_files(file, "public", None)
    assert files is not None
    assert (files.directory, files.market) == (tmp_path / "prices", MARKET)
    assert find_price_files(file, "another", None) is None
    (tmp_path / "data/prices").mkdir(parents=True)
    files = find_price_files(file, "public", tmp_path / "data")
    assert files is not None
    assert files.directory == tmp_path / "data/prices"
    (tmp_path / "prices").write_text("my own\n")
    assert find_price_files(file, "public", None) is None
    (tmp_path / "prices").unlink()
    file.write_text(FEDERATION.format(market="c5.xlarge"))
    with pytest.raises(InputError, match="name the market") as raised:
        find_price_files(file, "public", None)
    assert raised.value.field == "cloud[0].trace.market"
    file.write_text(FEDERATION.format(market="c5.xlarge/us-east-1b").replace("spot = true", ""))
    assert find_price_files(file, "public", None) is None


def test_the_owner_starts_from_them_once_they_are_there(tmp_path: Path, files: PriceFiles) -> None:
    file = tmp_path / "federation.toml"
    file.write_text(FEDERATION.format(market="c5.xlarge/us-east-1b"))
    warnings: list[str] = []
    federation = load_federation(file, None, on_warning=lambda _, text: warnings.append(text))
    assert len(federation.clouds[0].own_load) == 0
    assert warnings == ["There are no prices yet; the cloud's agent fetches them."]
    # Below the bid, above it for an hour, and below it again.
    fetch_prices(Market(price(0), price(10, "0.20"), price(11), price(20)), files)
    federation = load_federation(file, None)
    load = federation.clouds[0].own_load
    taken = [(start, stop) for start, stop in zip(load.start_s, load.stop_s, strict=True) if stop > start]
    assert taken == [(10 * 3600.0, 11 * 3600.0)] * 2
    arguments = parser().parse_args(["--federation", str(file), "--cloud", "public"])
    spec = process_spec(arguments.cloud[0], arguments, Settings(state_dir=tmp_path), federation)
    assert spec.history_s == 20 * 3600.0
    assert spec.owner.cloud.takes_back, "and it promises nothing before instances have lived there"
