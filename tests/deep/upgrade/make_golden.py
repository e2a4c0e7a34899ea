"""Golden files of one contract version: what its owner writes and reads, and what its readers accept.

Run with the code of that version on the path; the files go where they are told to:

    mkdir OLD && git archive COMMIT | tar -x -C OLD
    PYTHONPATH=OLD python tests/deep/upgrade/make_golden.py tests/golden/contract/VERSION

One cloud lives through everything that a journal can tell; nothing is drawn, so a second run writes the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from broker.api.services.overflow import OverflowOffer
from broker.contract import (
    Advert,
    Batch,
    CloudInfo,
    Command,
    Event,
    EventKind,
    Lease,
    LeaseState,
    QuoteView,
    Reply,
    SpotRequest,
    commands,
    replies,
)
from broker.contract.convert import to_node_kinds
from broker.requests.models import RequestAnswer
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.nodes import CORES_ONLY, NodeDetails
from tests.unit.workers.owners import harmless_table
from workers.owner.event_writer import Decisions
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

NOW = "2026-01-01T00:00:00+00:00"
NODES = (4, 4, 4)
GRACE_S = 50.0
#: What crosses between processes, by name; what is read with the schema of a list is one message of it here.
MESSAGES: dict[str, Any] = {
    "advert": Advert, "batch": Batch, "command": Command, "event": Event, "info": CloudInfo, "lease": Lease,
    "offer": OverflowOffer, "reply": Reply, "request": SpotRequest, "settled": RequestAnswer,
}  # fmt: skip


def owner_spec() -> OwnerSpec:
    """Of the cloud in the files; whoever recovers it needs the same."""
    labels = tuple(frozenset({("rack", name)}) for name in ("left", "left", "right"))
    details = NodeDetails((("memory_mb", (8000, 8000, 8000)),), labels)
    return OwnerSpec(
        CloudSpec("A", NODES, details, grace_s=GRACE_S), renewal_s=400.0, overflow=True, overflow_sla=0.1
    )


def summary(owner: Owner) -> dict[str, Any]:
    """What the fold of the journal comes to."""
    state, inventory = owner.state, owner.cloud.inventory
    return {
        "running": sorted([one.id, one.cores, one.node, one.start_s] for one in inventory),
        "booked": sorted(state.booked),
        "free_cores": inventory.free.tolist(),
        "closed_nodes": inventory.closed.tolist(),
        "counts": [state.sequence, state.admitted, state.evicted],
        "reserved": sorted(state.answer_log.reserved()),
        "offers": len(state.offers),
        "now_s": owner.cloud.now_s,
    }


class Life:
    """The cloud, and all that it was told and said, as JSON."""

    def __init__(self) -> None:
        self.owner = Owner(owner_spec(), epoch=1)
        self.inbox: list[str] = []
        self.journal: list[str] = []
        self.replies: list[str] = []
        self.adverts: list[str] = []
        self.offers: list[str] = []
        self.leases: dict[str, str] = {}

    def take(self, outcome: Decisions) -> None:
        self.journal += [event.model_dump_json() for event in outcome.events]
        self.leases |= {lease.id: lease.model_dump_json() for lease in outcome.leases}
        self.offers += [json.dumps(item) for item in outcome.overflow]
        if outcome.replies:
            self.replies.append(replies.dump_json([reply for _, reply in outcome.replies]).decode())
        self.adverts.append(self.owner.advert(NOW).model_dump_json())

    def tell(self, at_s: float, kind: str, **fields: Any) -> None:
        told = {"kind": kind, "id": f"c{len(self.inbox)}", "reply_to": "me"} | fields
        (command,) = commands.validate_python([told])
        self.inbox.append(commands.dump_json([command]).decode())
        self.take(self.owner.handle(command, at_s, NOW))
        self.owner.validate()

    def lease(self, at_s: float, request: str, **wish: Any) -> None:
        wanted = {"origin": "B", "cores": 1, "lifetime_s": 1000.0, "sla": 0.5} | wish
        self.tell(at_s, "reserve", attempt=f"{request}.1", request=request, **wanted)
        self.tell(at_s, "confirm", attempt=f"{request}.1")


def live() -> Life:
    """A life with every kind of command and every kind of event."""
    life = Life()
    life.take(life.owner.open(0.0, NOW))
    life.take(life.owner.adopt(harmless_table(NODES), NOW))
    _spot(life)
    _own_users(life)
    _operator(life)
    _failed(life)
    life.tell(9000.0, "finish")
    needs = {"labels": {"rack": "right"}, "resources": {"memory_mb": 10}}
    life.lease(9000.0, "kept", lifetime_s=5000.0, cores=2, sla=None, **needs)
    life.tell(
        9001.0, "reserve", attempt="held.1", request="held", origin="B", cores=1, lifetime_s=9.0, sla=None
    )
    life.tell(9002.0, "start_on_demand", instance="od-kept", cores=3, lifetime_s=None)
    life.tell(9003.0, "tick")
    return life


def _spot(life: Life) -> None:
    life.tell(1.0, "quote", request="q", origin="B", cores=1, lifetime_s=10.0, sla=0.5, other_sizes=True)
    life.tell(2.0, "quote", request="q", origin="B", cores=64, lifetime_s=10.0, sla=None)
    life.lease(3.0, "plain", group="web", spread="apart")
    life.tell(4.0, "extend", lease="plain.1", extension="x", until_s=2000.0, sla=0.4)
    life.tell(5.0, "reserve", attempt="let.1", request="let", origin="B", cores=1, lifetime_s=9.0, sla=None)
    life.tell(6.0, "release", attempt="let.1")
    life.tell(7.0, "release", attempt="tomb.1")
    life.tell(8.0, "reserve", attempt="big.1", request="big", origin="B", cores=9, lifetime_s=9.0, sla=None)
    life.lease(9.0, "gone", lifetime_s=50.0)
    life.tell(10.0, "cancel", lease="gone.1", by="holder")
    life.lease(11.0, "done", lifetime_s=50.0)
    life.lease(12.0, "endless", lifetime_s=None)
    life.tell(320.0, "tick")  # it is renewed
    table, life.owner.cloud.table = life.owner.cloud.table, None
    life.tell(706.0, "tick")  # and now it cannot be
    offer = QuoteView(
        cloud="B", cores=1, free_slots=9, eviction_probability=0.0, survives_s=9e9, table_version="v",
        table_made_at_s=0.0, cloud_time_s=0.0,
    )  # fmt: skip
    life.tell(707.0, "migrate", lease="endless.1", offers=[offer.model_dump()])
    life.owner.cloud.table = table
    life.tell(1000.0, "tick")


def _own_users(life: Life) -> None:
    for at_s, name in ((1100.0, "one"), (1101.0, "two")):
        life.lease(at_s, name, cores=4, lifetime_s=3000.0)
    life.tell(1102.0, "start_on_demand", instance="od", cores=4, lifetime_s=500.0)  # one leaves for it
    life.tell(1103.0, "acknowledge", lease="two.1", by="holder")
    life.tell(1104.0, "start_on_demand", instance="waiting", cores=4, lifetime_s=500.0)
    life.tell(1105.0, "stop_on_demand", instance="waiting")
    life.tell(1160.0, "start_all", requests=[{"id": "all-1", "cores": 1}, {"id": "all-2", "cores": 1}])
    life.tell(1161.0, "show", instance="all-1")
    life.tell(1230.0, "stop_on_demand", instance="all-1")
    life.tell(1231.0, "stop_on_demand", instance="all-2")
    for number in range(3):
        life.tell(1240.0 + number, "start_on_demand", instance=f"full-{number}", cores=4, lifetime_s=100.0)
    life.tell(1300.0, "start_on_demand", instance="more", cores=4, lifetime_s=1000.0)
    life.tell(1301.0, "start_on_demand", instance="most", cores=4, lifetime_s=1000.0)
    news = {"instance": "more", "lease": "more.1", "cloud": "B"}
    life.tell(1302.0, "overflow", outcome="placed", attempt=1, **news)
    life.tell(1303.0, "overflow", outcome="evicted", attempt=1, **news)
    life.tell(1304.0, "overflow", instance="most", outcome="refused", attempt=1)
    life.tell(1305.0, "stop_on_demand", instance="more")
    life.tell(2000.0, "tick")


def _operator(life: Life) -> None:
    life.lease(2001.0, "drained", lifetime_s=4000.0)
    life.tell(2002.0, "drain", nodes=[0], by="admin", dry_run=True)
    life.tell(2003.0, "drain", nodes=None, by="admin")
    life.tell(2100.0, "reopen", nodes=[0], by="admin")
    life.tell(2101.0, "reopen", nodes=None, by="admin")
    life.tell(2102.0, "drain", nodes=[1], by="admin")


def _failed(life: Life) -> None:
    """No owner of ours says that an instance failed; the contract has it."""
    life.lease(2200.0, "broken", lifetime_s=4000.0)
    running = Lease.model_validate_json(life.leases["broken.1"])
    failed = running.model_copy(update={"state": LeaseState.FAILED, "ended_at_s": 2201.0, "cause": "node"})
    event = Event(
        cloud="A", kind=EventKind.FAILED, at_s=2201.0, at=NOW, lease=failed, cause="node",
        sequence=life.owner.state.sequence + 1,
    )  # fmt: skip
    life.owner.apply(event)
    life.take(Decisions(events=[event]))


def others(life: Life) -> dict[str, list[str]]:
    """Messages that no owner writes in its life, by name."""
    lease = Lease.model_validate_json(next(iter(life.leases.values())))
    info = CloudInfo(
        id="A", order=0, nodes="3x4", cores=12, largest_node=4, time="wall", overflow=True,
        node_kinds=to_node_kinds(NODES, owner_spec().cloud.details), lineup="youngest-job-first",
        grace_s=GRACE_S,
    )  # fmt: skip
    plain = CloudInfo(
        id="B", order=1, nodes="8", cores=8, largest_node=8, time="trace",
        node_kinds=to_node_kinds((8,), CORES_ONLY),
    )  # fmt: skip
    batch = Batch(
        cloud="A", epoch=1, refresh="A:1:0", chunks=1, cores=2, share=0, shares=4, node_cores=NODES, seed=0,
        births=9,
    )  # fmt: skip
    request = SpotRequest(
        id="r", origin="B", cores=2, lifetime_s=60.0, sla=0.1, targets=("A",), labels={"rack": "left"}
    )
    settled = RequestAnswer(lease=lease, refusals=[])
    refused = RequestAnswer(lease=None, refusals=[])
    return {
        "info": [info.model_dump_json(), plain.model_dump_json()],
        "batch": [batch.model_dump_json()],
        "request": [request.model_dump_json()],
        "settled": [settled.model_dump_json(), refused.model_dump_json()],
    }


def schemas() -> dict[str, Any]:
    """JSON schemas of what this version's readers accept."""
    return {name: _bare(TypeAdapter(message).json_schema()) for name, message in MESSAGES.items()}


def _bare(schema: Any) -> Any:
    """Without what is for people."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    said = {"title", "description"}
    return {key: _bare(one) for key, one in schema.items() if not (key in said and isinstance(one, str))}


def main(directory: Path) -> None:
    """Writes the files."""
    life = live()
    directory.mkdir(parents=True, exist_ok=True)
    written: dict[str, Iterable[str]] = {
        "journal": life.journal, "inbox": life.inbox, "replies": life.replies, "offer": life.offers,
        # Each says the same of other numbers.
        "advert": life.adverts[::8], "lease": life.leases.values(), **others(life),
    }  # fmt: skip
    for name, lines in written.items():
        (directory / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    events = [Event.model_validate_json(line) for line in life.journal]
    recovered = Owner.recover(owner_spec(), 2, events)
    recovered.validate()
    told = {"summary.json": summary(recovered), "schemas.json": schemas()}
    for name, value in told.items():
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        (directory / name).write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
