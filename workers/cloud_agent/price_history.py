"""The price history of the market whose spot instances a public cloud lends; its owner starts from it.

EC2 tells the prices of the last ninety days. The agent asks every hour and keeps them, in files that
``spotfed prices`` and the field ``trace`` of a federation file read.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from broker.doctor.check import CheckResult, ok, warning
from cloudsim.federation.file import read_file
from cloudsim.federation.file_schema import PriceTrace
from cloudsim.model.errors import InputError
from workers.cloud_agent.drivers.base import InstanceError

#: Seconds between two questions for new prices, and after one that failed.
HOUR_S, AGAIN_S = 3600.0, 300.0
#: As far back as EC2 tells prices.
TOLD = timedelta(days=90)
_KEY = "SpotPriceHistory"

log = structlog.get_logger(__name__)

#: A price with the fields of ``aws ec2 describe-spot-price-history``.
Price = Mapping[str, str]


class SpotMarket(NamedTuple):
    """A market of spot instances: their type, zone and operating system."""

    instance_type: str
    zone: str
    product: str = "Linux/UNIX"

    @classmethod
    def parse(cls, text: str) -> SpotMarket:
        """Read ``TYPE/ZONE`` or ``TYPE/ZONE/PRODUCT``. Raises ValueError."""
        instance_type, zone, *product = text.split("/", 2)
        return cls(instance_type, zone, *product)

    def __str__(self) -> str:
        return "/".join(self[:2] if self.product == "Linux/UNIX" else self)


class PriceDriver(Protocol):
    """Reads prices of spot instances. Raises InstanceError."""

    def read_prices(self, market: SpotMarket, since: datetime) -> list[Price]:
        """Return the prices of a market since then, and the one that was in force then."""


class PriceFiles:
    """A directory with the prices of one market, in a file for each month."""

    def __init__(self, directory: Path, market: SpotMarket):
        self.directory, self.market = directory, market
        self._name = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(market))

    @property
    def latest_at(self) -> datetime | None:
        """The time of the newest price, None if there is none."""
        files = sorted(self.directory.glob(f"{self._name}-*.json"))
        return max((_time(price) for price in self._read(files[-1])), default=None) if files else None

    def add(self, prices: Sequence[Price]) -> int:
        """Add prices; return how many are new. Raises OSError, ValueError."""
        months: dict[str, list[Price]] = {}
        for price in prices:
            months.setdefault(f"{_time(price):%Y-%m}", []).append(price)
        added = 0
        for month, new in months.items():
            file = self.directory / f"{self._name}-{month}.json"
            known = {json.dumps(price, sort_keys=True) for price in self._read(file)}
            merged = known | {json.dumps(dict(price), sort_keys=True) for price in new}
            if merged != known:
                self._write(file, [json.loads(price) for price in merged])
                added += len(merged - known)
        return added

    @staticmethod
    def _read(file: Path) -> list[Price]:
        return list(json.loads(file.read_text())[_KEY]) if file.exists() else []

    def _write(self, file: Path, prices: list[Price]) -> None:
        prices.sort(key=lambda price: (_time(price), price["SpotPrice"]), reverse=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(".tmp")
        unfinished.write_text(json.dumps({_KEY: prices}, indent=0))
        unfinished.replace(file)


def find_price_files(federation: Path, cloud: str, data: Path | None) -> PriceFiles | None:
    """Return the files from which a cloud's own load is made and which its agent keeps; None if it has none.

    They are a directory, in the data directory or beside the federation file. A single file is the
    operator's.

    Raises
    ------
    InputError
        When the federation file does not name the market.
    """
    for number, table in enumerate(read_file(federation).cloud):
        instances, trace = table.instances or {}, table.trace
        if table.id != cloud or instances.get("spot") is not True or not isinstance(trace, PriceTrace):
            continue
        places = [place / trace.prices for place in (data, federation.absolute().parent) if place]
        directory = next((place for place in places if place.exists()), places[-1])
        if directory.is_file():
            return None
        field = f"cloud[{number}].trace.market"
        try:
            return PriceFiles(directory, SpotMarket.parse(trace.market or ""))
        except (TypeError, ValueError):
            raise InputError('name the market, as in "c5.xlarge/eu-west-1a"', field=field) from None
    return None


def fetch_prices(driver: PriceDriver, files: PriceFiles) -> int:
    """Ask for the prices since the newest one that is known, and keep them; return how many are new.

    Raises InstanceError, OSError, ValueError.
    """
    return files.add(driver.read_prices(files.market, files.latest_at or datetime.now(UTC) - TOLD))


def keep_prices(driver: PriceDriver, files: PriceFiles, stopping: threading.Event) -> None:
    """Fetch prices every hour until ``stopping`` is set."""
    while not stopping.is_set():
        pause_s = HOUR_S
        try:
            log.info("fetched spot prices", market=str(files.market), new=fetch_prices(driver, files))
        except (InstanceError, OSError, ValueError) as error:
            log.warning("spot prices cannot be fetched", market=str(files.market), why=str(error))
            pause_s = AGAIN_S
        stopping.wait(pause_s)


def check_prices(driver: PriceDriver, files: PriceFiles) -> Iterator[CheckResult]:
    """Fetch prices, and yield what is known of the market. Raises InstanceError."""
    market = files.market
    try:
        fetch_prices(driver, files)
        latest_at = files.latest_at
    except (OSError, ValueError) as error:
        yield warning(f"{files.directory} cannot be used: {error}", "correct it", name="prices")
        return
    if latest_at is None:
        yield warning(f"there are no prices of {market}", "correct trace.market", name="prices")
    else:
        yield ok(f"{market} has prices until {latest_at:%Y-%m-%d %H:%M} in {files.directory}", name="prices")


def _time(price: Price) -> datetime:
    return datetime.fromisoformat(price["Timestamp"])
