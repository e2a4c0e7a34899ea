"""Price histories for tests: records as EC2 tells them, as JSON pages and as CSV."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cloudsim.traces.formats.source import Source, decode_source

#: 2021-03-02T00:00:00Z
BEGIN = 1_614_643_200
HOUR = 3600

Record = dict[str, Any]


def record(
    at_s: float,
    price: Any,
    product: str = "Linux/UNIX",
    instance_type: str = "m1.large",
    zone: str = "us-east-1a",
) -> Record:
    return {
        "AvailabilityZone": zone,
        "InstanceType": instance_type,
        "ProductDescription": product,
        "SpotPrice": price,
        "Timestamp": datetime.fromtimestamp(at_s, UTC).isoformat(),
    }


def page(records: Sequence[Any], token: str | None = None) -> str:
    body: dict[str, Any] = {"SpotPriceHistory": list(records)}
    if token is not None:
        body["NextToken"] = token
    return json.dumps(body, indent=1)


def source(*pages: str, file: str = "prices.json") -> Source:
    return decode_source("\n".join(pages).encode(), file, accepted="")


def csv(records: Sequence[Record], file: str = "prices.csv") -> Source:
    """The same records as CSV; a price of null is an empty cell."""
    lines = ["timestamp,instance_type,product,availability_zone,price_usd_per_hour"]
    for one in records:
        price = "" if one["SpotPrice"] is None else one["SpotPrice"]
        cells = (
            one["Timestamp"],
            one["InstanceType"],
            one["ProductDescription"],
            one["AvailabilityZone"],
            price,
        )
        lines.append(",".join(map(str, cells)))
    return decode_source("\n".join(lines).encode(), file, accepted="")
