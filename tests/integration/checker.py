"""Walks the journals of a federation and lists every breach of what it promises. Reads Redis only, shares
no code with the product: plain JSON, its own book-keeping.

Checked: journal ids rise without gaps in an epoch and epochs rise; each entry's hash follows from the one
before; no core is booked twice; a lease is
admitted at most once and ends at most once, never before it began; a request is admitted by one cloud
only; a lease is extended only while it runs, to a later end; public events are numbered without gaps and
appear once in the merged stream; the lease a reader is shown is the journal's last word.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

ENDS = {"completed", "evicted", "cancelled", "failed"}


@dataclass
class Findings:
    """What the journals say, and every breach in words."""

    breaches: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    epochs: dict[str, int] = field(default_factory=dict)
    admitted: dict[str, str] = field(default_factory=dict)  # lease id to cloud
    ended: dict[str, str] = field(default_factory=dict)  # lease id to kind of end
    held_cores: dict[str, int] = field(default_factory=dict)  # cloud to cores that the fold still holds


def check(client: Any, prefix: str) -> Findings:
    """Reads everything under ``prefix`` and judges it."""
    findings = Findings()
    clouds = client.hgetall(f"{prefix}clouds")
    request_of: dict[str, str] = {}
    shown: dict[str, dict[str, Any]] = {}
    for raw_id, info in clouds.items():
        _walk(
            client,
            prefix,
            raw_id.decode(),
            _node_cores(json.loads(info)["nodes"]),
            findings,
            request_of,
            shown,
        )
    clouds_of: defaultdict[str, set[str]] = defaultdict(set)
    for admitted, cloud in findings.admitted.items():
        clouds_of[request_of[admitted]].add(f"{cloud}:{admitted}")
    for request, places in clouds_of.items():
        if len(places) > 1:
            findings.breaches.append(f"request {request} was admitted more than once: {sorted(places)}")
    merged: Counter[tuple[str, int]] = Counter(
        (event["cloud"], event["sequence"])
        for _, fields in client.xrange(f"{prefix}events")
        for event in [json.loads(fields[b"e"])]
    )
    findings.breaches += [
        f"event {key} stands {n} times in the merged stream" for key, n in merged.items() if n > 1
    ]
    for lease_id, lease in shown.items():
        # What ended while the federation spoke version 2 of the contract is where all showed their leases.
        stored = client.get(f"{prefix}shown:{lease['cloud']}:{lease_id}") or client.get(
            f"{prefix}lease:{lease_id}"
        )
        if stored is None or json.loads(stored) != lease:
            findings.breaches.append(f"lease {lease_id} is shown as {stored!r}, the journal says {lease}")
    return findings


def _node_cores(shape: str) -> list[int]:
    cores: list[int] = []
    for group in shape.split(","):
        count, size = group.lower().split("x")
        cores += [int(size)] * int(count)
    return cores


def _walk(
    client: Any,
    prefix: str,
    cloud: str,
    node_cores: list[int],
    findings: Findings,
    request_of: dict[str, str],
    shown: dict[str, dict[str, Any]],
) -> None:
    held: dict[str, dict[str, Any]] = {}
    used = [0] * len(node_cores)
    seen_ends: set[str] = set()
    lapsed: set[str] = set()  # ended before the broker's word; told late if that was for them
    epoch, number, sequence = 0, 0, 0
    last_at_s, hashed = 0.0, b""

    def breach(text: str) -> None:
        findings.breaches.append(f"{cloud} {epoch}-{number}: {text}")

    def free(lease_id: str) -> None:
        lease = held.pop(lease_id, None)
        if lease is None:
            breach(f"{lease_id} gives back cores that it does not hold")
            return
        used[lease["node"]] -= lease["cores"]

    for entry, fields in client.xrange(f"{prefix}journal:{cloud}"):
        event = json.loads(fields[b"e"])
        hashed = hashlib.sha256(b"%s %s %s" % (hashed, entry, fields[b"e"])).hexdigest().encode()
        if fields.get(b"h") != hashed:
            breach(f"the hash of {entry.decode()} does not follow from the entry before")
            hashed = fields.get(b"h", b"")
        new_epoch, new_number = map(int, entry.decode().split("-"))
        if new_epoch < epoch or new_number != (number + 1 if new_epoch == epoch else 1):
            breach(f"followed by {new_epoch}-{new_number}")
        epoch, number = new_epoch, new_number
        findings.kinds[event["kind"]] += 1
        if event["at_s"] < last_at_s - 1e-6:
            breach(f"time goes back from {last_at_s} to {event['at_s']}")
        last_at_s = event["at_s"]
        if event["sequence"] is not None:
            sequence += 1
            if event["sequence"] != sequence:
                breach(f"public event {event['sequence']} where {sequence} was due")
        lease = event["lease"]
        if lease is None:
            if event["kind"] == "released" and event["attempt"] in held:
                free(event["attempt"])
            continue
        lease_id = lease["id"]
        if lease_id in lapsed and event["kind"] == "admitted":
            lapsed.remove(lease_id)
            held[lease_id] = lease | {"cores": 0}  # it has left; its end is told next
        elif event["kind"] in ("reserved", "admitted") and lease_id not in held:
            if event["kind"] == "admitted" and lease["kind"] == "spot":
                breach(f"{lease_id} was admitted without being reserved")
            if lease_id in seen_ends:
                breach(f"{lease_id} runs again after its end")
            held[lease_id] = lease
            used[lease["node"]] += lease["cores"]
            if used[lease["node"]] > node_cores[lease["node"]]:
                breach(
                    f"node {lease['node']} holds {used[lease['node']]} of {node_cores[lease['node']]} cores"
                )
        if event["kind"] == "admitted" and lease["kind"] == "spot":
            if lease_id in findings.admitted:
                breach(f"{lease_id} is admitted twice")
            findings.admitted[lease_id] = cloud
            request_of[lease_id] = lease["request"]
        if event["kind"] == "extended":
            before = held.get(lease_id)
            if before is None or not before["ends_at_s"] < lease["ends_at_s"]:
                breach(f"{lease_id} is extended to {lease['ends_at_s']} from {before}")
            held[lease_id] = lease
        if event["kind"] in ENDS:
            if lease_id in seen_ends:
                breach(f"{lease_id} ends twice")
            seen_ends.add(lease_id)
            free(lease_id)
            if lease["kind"] == "spot":
                findings.ended[lease_id] = event["kind"]
        elif event["kind"] == "released":
            free(lease_id)
            if event["attempt"] is None:
                lapsed.add(lease_id)
        if lease["kind"] == "spot" and event["kind"] in ENDS | {"admitted", "extended", "warned", "offered"}:
            shown[lease_id] = lease
    own = client.xrange(f"{prefix}events:{cloud}")
    if [entry.decode() for entry, _ in own] != [f"0-{n}" for n in range(1, sequence + 1)]:
        breach("its stream of public events has gaps")
    findings.epochs[cloud] = epoch
    findings.held_cores[cloud] = sum(lease["cores"] for lease in held.values())
