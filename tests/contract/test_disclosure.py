"""Two clouds with the same median and 90th percentile, through the whole API: no quote, refusal,
counter-offer, submission, advert, table, ledger or event tells the one from the other.
docs/design/volatile-resources.md "In the product"."""

from __future__ import annotations

import itertools
import json
import re
import time
from typing import Any

import httpx
import numpy as np
import pytest

from broker.client import Client, NotFoundError
from broker.requests.members import REFRESH_S
from cloudsim.disclosure.levels import Disclosure
from cloudsim.disclosure.masked_tables import describe_table
from cloudsim.model.errors import SpecError
from tests.contract.harness import KEY, Federation, Run
from tests.contract.twins import LIVES, NODES, table_of
from tests.support.wait import wait_until

CLOUDS = ("twin-a", "twin-b")
SLAS = (0.05, 0.5, 0.9, None)
LIFETIMES_S = (30.0, 3600.0, 3601.0, 20_000.0, 36_000.0, 36_001.0)
#: Differ by the clock and by names, a digest of names among them.
_OF_THE_MOMENT = {"at", "advert_age_s", "order", "attempt"}


def join(federation: Federation, api: httpx.Client, level: Disclosure, *, table: bool = True) -> None:
    """A pair of twins, at a standstill, with their tables published as owners do."""
    for cloud, lives_s in zip(CLOUDS, LIVES[level], strict=True):
        owner = federation.join(cloud, NODES, disclosure=level, clock=lambda: 1000.0)
        if table:
            owner.owner.cloud.table = table_of(lives_s)
            told = owner.owner.cloud.table
            assert told is not None
            owner.show_table(describe_table(told))
    if table and level not in (Disclosure.NOTHING, Disclosure.MTTR):
        wait_until(
            lambda: all(one["advert"]["table_version"] for one in api.get("/v1/clouds").json()["clouds"])
        )


def blind(told: Any, cloud: str) -> Any:
    """What was told, as who does not look at the names of the clouds and the time sees it."""
    if isinstance(told, dict):
        return {key: blind(one, cloud) for key, one in told.items() if key not in _OF_THE_MOMENT}
    if isinstance(told, list):
        return sorted((blind(one, cloud) for one in told), key=repr)
    return re.sub("twin-[ab]", "other", told.replace(cloud, "this")) if isinstance(told, str) else told


class Observer:
    """Asks both clouds everything, and keeps what each said."""

    def __init__(self, api: httpx.Client):
        self.api = api
        self.heard: dict[str, list[Any]] = {cloud: [] for cloud in CLOUDS}

    def note(self, cloud: str, response: httpx.Response) -> Any:
        told = response.json()
        self.heard[cloud].append([response.status_code, blind(told, cloud)])
        return told

    def quotes(self) -> None:
        for sla, lifetime_s in itertools.product(SLAS, LIFETIMES_S):
            wish = {"cores": [1, 4], "lifetime_s": lifetime_s, "sla": sla}
            told = self.api.post("/v1/quotes", json=wish).json()
            for cloud in CLOUDS:
                for kind in ("quotes", "refusals"):
                    self.heard[cloud].append(
                        [blind(one, cloud) for one in told[kind] if one["cloud"] == cloud]
                    )

    def submissions(self, name: str) -> None:
        for cloud in CLOUDS:
            time.sleep(2 * REFRESH_S)  # adverts are as old as that
            wishes = itertools.product((0.3, 0.5, 0.9), (30.0, 3600.0, 3601.0, 36_000.0, 36_001.0), (1, 4))
            several = [
                {
                    "id": f"{name}-{cloud}-{number}",
                    "cores": cores,
                    "lifetime_s": life_s,
                    "sla": sla,
                    "targets": [cloud],
                }
                for number, (sla, life_s, cores) in enumerate(wishes)
            ]
            told = self.note(cloud, self.api.post("/v1/requests", json=several))
            for lease in (one["lease"]["id"] for one in told["results"] if one["lease"]):
                extension = {"id": "more", "until_s": 20_000.0}
                self.note(cloud, self.api.post(f"/v1/leases/{lease}/extend", json=extension))
                self.note(cloud, self.api.delete(f"/v1/leases/{lease}"))

    def looks(self) -> None:
        for cloud in CLOUDS:
            self.note(cloud, self.api.get(f"/v1/clouds/{cloud}"))
            self.note(cloud, self.api.get(f"/v1/clouds/{cloud}/table"))
            self.note(cloud, self.api.get("/v1/ledger", params={"cloud": cloud, "by": "cloud,sla,table"}))
            self.note(cloud, self.api.get("/v1/leases", params={"cloud": cloud}))
            series = [one for one in self.api.get("/metrics").text.splitlines() if f'cloud="{cloud}"' in one]
            assert series
            self.heard[cloud].append(blind([one for one in series if "advert_age" not in one], cloud))

    def events(self, client: Client) -> None:
        for cloud in CLOUDS:
            told = [
                one.event.model_dump(mode="json") for one in client.events.stream(follow=False, cloud=cloud)
            ]
            self.heard[cloud].append(blind(told, cloud))

    def told_apart(self) -> bool:
        return self.heard["twin-a"] != self.heard["twin-b"]


def observe(federation: Federation, api: httpx.Client) -> Observer:
    observer = Observer(api)
    observer.quotes()
    observer.submissions("empty")
    for cloud in CLOUDS:
        kept = {"id": f"kept-{cloud}", "cores": 4, "lifetime_s": 3000.0, "sla": 0.5, "targets": [cloud]}
        assert observer.note(cloud, api.post("/v1/requests", json=kept)).get("lease"), "it fits"
    for number, cores in enumerate((8, 8, 5)):  # the last one evicts it
        for cloud in CLOUDS:
            own = {"id": f"od-{number}", "cores": cores}
            observer.note(cloud, api.post(f"/v1/clouds/{cloud}/on-demand", json=own))
        observer.submissions(f"after-{number}")
    observer.quotes()
    seen = {cloud: federation.owners[cloud].owner.state.sequence for cloud in CLOUDS}
    wait_until(
        lambda: {one["cloud"]: one["sequence"] for one in api.get("/v1/ledger").json()["clouds"]} == seen
    )
    observer.looks()
    with Client(federation.url, KEY) as client:
        observer.events(client)
    return observer


def test_clouds_that_disclose_the_same_cannot_be_told_apart(
    federation: Federation, api: httpx.Client
) -> None:
    join(federation, api, Disclosure.P90)
    observer = observe(federation, api)
    text = json.dumps(observer.heard)
    assert '"evicted"' in text
    assert '"risk_too_high"' in text
    assert '"no_evidence"' in text
    for one, other in zip(*observer.heard.values(), strict=True):
        assert one == other
    risks = {float(one) for one in re.findall(r'"(?:eviction_probability|mean_risk)": ([\d.]+)', text)}
    assert risks <= {0.5, 0.9, 1.0}
    lifetimes_s = {float(one) for one in re.findall(r'"survives_s": ([\d.]+)', text)}
    assert lifetimes_s <= {0.0, 3600.0, 36_000.0}


def test_clouds_that_disclose_everything_can(federation: Federation, api: httpx.Client) -> None:
    join(federation, api, Disclosure.FULL)
    observer = Observer(api)
    observer.quotes()
    assert observer.told_apart()


# -- the table -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "figures"),
    [
        (Disclosure.NOTHING, None),
        (Disclosure.MTTR, {"mean_s"}),
        (Disclosure.P10, {"median_s", "quantile_s"}),
        (Disclosure.P90, {"median_s", "quantile_s"}),
        (Disclosure.FULL, {"survival"}),
    ],
)
def test_a_table_holds_what_its_level_allows(
    federation: Federation, api: httpx.Client, level: Disclosure, figures: set[str] | None
) -> None:
    join(federation, api, level)
    told = api.get("/v1/clouds/twin-a/table").json()
    assert (
        told["disclosure"] == api.get("/v1/clouds/twin-a").json()["advert"].get("disclosure", "full") == level
    )
    assert (told["version"] != "", told["made_at_s"]) == (True, 1e7)
    if figures is None:
        assert told["lifetimes"] == told["rows"] == []
    else:
        for one in told["lifetimes"]:
            assert {name for name, value in one.items() if value not in (None, {})} == {"cores", *figures}
    if level is not Disclosure.FULL:
        assert all("samples" not in row and "risk_intervals" not in row for row in told["rows"])
        with federation.redis as client:
            everything = b" ".join(_values(client, federation.prefix))
        real = np.unique(np.concatenate([np.array(lives) for lives in LIVES[level]]))
        hidden = {f"{one:g}".encode() for one in real.tolist()} - {b"3600", b"36000", b"600", b"1800"}
        assert not [one for one in hidden if b" %s.0," % one in everything], "in no key of Redis either"


def _values(client: Any, prefix: str) -> list[bytes]:
    found = []
    for key in client.scan_iter(f"{prefix}*"):
        kind = client.type(key)
        if kind == b"string":
            found.append(client.get(key))
        elif kind == b"hash":
            found += [part for pair in client.hgetall(key).items() for part in pair]
        elif kind == b"stream":
            found += [part for _, fields in client.xrange(key) for pair in fields.items() for part in pair]
    return found


# -- choosing a lifetime -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "lifetime_s", "sla"),
    [(Disclosure.MTTR, 1500.0, None), (Disclosure.P10, 3300.0, 0.5), (Disclosure.P90, 20_100.0, 0.9)],
)
def test_a_lifetime_is_chosen_by_what_is_disclosed_and_granted(
    federation: Federation, api: httpx.Client, level: Disclosure, lifetime_s: float, sla: float | None
) -> None:
    join(federation, api, level)
    with Client(federation.url, KEY) as client:
        told = client.targets.choose("twin-a", cores=2)
        assert (told.lifetime_s, told.sla, told.disclosure, told.why) == (lifetime_s, sla, level, None)
    wish = {"cores": 2, "lifetime_s": told.lifetime_s, "sla": told.sla, "targets": ["twin-a"]}
    assert api.post("/v1/requests", json=wish).status_code == 201


def test_targets_on_the_command_line(federation: Federation, api: httpx.Client, spotfed: Run) -> None:
    join(federation, api, Disclosure.P90)
    federation.join("silent", disclosure=Disclosure.NOTHING)
    code, out, _ = spotfed("target", "--all", "--cores", 2, "--value", "polynomial", "--json")
    found = {one["cloud"]: one for one in json.loads(out)["targets"]}
    assert code == 0
    assert found["twin-a"] | {"cloud": ""} == found["twin-b"] | {"cloud": ""}
    assert 0 < found["twin-a"]["chance"] < 1
    assert found["twin-a"]["value_h"] > 1
    assert found["silent"]["lifetime_s"] is None
    code, out, _ = spotfed("clouds")
    assert (code, out.count("some"), "24 of 24" in out) == (0, 3, False)
    code, out, _ = spotfed("target", "--cloud", "twin-a", "--cores", 2)
    assert code == 0
    asked = re.search(r"next: spotfed (submit .*)", out)
    assert asked is not None
    code, out, _ = spotfed(*asked[1].split())
    assert (code, "admitted" in out) == (0, True)


def test_where_nothing_is_told_nothing_is_chosen(
    federation: Federation, api: httpx.Client, spotfed: Run
) -> None:
    join(federation, api, Disclosure.NOTHING)
    code, out, _ = spotfed("target", "--cloud", "twin-a")
    assert (code, "ask without a guarantee" in out) == (3, True)
    federation.join("young", disclosure=Disclosure.P90)
    code, out, _ = spotfed("target", "--cloud", "young")
    assert (code, "no table yet" in out) == (3, True)
    code, _, err = spotfed("target", "--all", "--cloud", "twin-a")
    assert (code, "leave one of them out" in err) == (2, True)
    with Client(federation.url, KEY) as client:
        with pytest.raises(NotFoundError):
            client.targets.choose("nowhere")
        with pytest.raises(SpecError, match="value"):
            client.targets.choose("twin-a", value="beauty")
