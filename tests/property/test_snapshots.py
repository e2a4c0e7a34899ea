"""A snapshot and what follows it in the journal make the same owner as the whole journal."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.contract import Event, Overflow
from tests.unit.workers.owners import Live, command_id, harmless_table, reserve, snapshot, spec
from tests.unit.workers.test_owner_machine import CARE, COMMANDS, CROWDS, INSTANCES, OWN_LOADS, play, steps_of
from workers.owner import snapshots
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec

NEWS = st.builds(
    lambda instance, outcome: Overflow(**command_id(), instance=instance, outcome=outcome, cloud="B"),
    INSTANCES,
    st.sampled_from(["placed", "refused", "evicted", "completed"]),
)


class FromSnapshots(Live):
    """Each owner begins with a snapshot that was taken when the one before it began."""

    def __init__(self, owner_spec: OwnerSpec, table: Any) -> None:
        super().__init__(owner_spec, table)
        self.packed, self.at = self._packed(), 0

    def _packed(self) -> bytes:
        return snapshots.pack(snapshots.take(self.owner.state, f"1-{len(self.events)}", "hash"))

    def crash(self) -> None:
        stored = [Event.model_validate_json(event.model_dump_json()) for event in self.events]
        taken = snapshots.unpack(self.packed)
        assert (taken.head.id, taken.head.hash) == (f"1-{self.at}", "hash")
        short = Owner.recover(
            self.spec, self.owner.epoch + 1, stored[self.at :], snapshots.restored(self.spec, taken)
        )
        short.validate()
        whole = Owner.recover(self.spec, self.owner.epoch + 1, stored)
        assert snapshot(short) == snapshot(whole)
        assert short.cloud.next_event() == whole.cloud.next_event()
        assert short.state.renewals._due_s == whole.state.renewals._due_s
        assert short.cloud.now_s == whole.cloud.now_s
        super().crash()
        short.cloud.history.cut(self.owner.cloud.history.cut_s)
        short.cloud.table = self.table
        self.owner = short
        self.packed, self.at = self._packed(), len(self.events)


@settings(max_examples=60)
@given(
    crowd=CROWDS,
    steps=steps_of(COMMANDS, CARE, NEWS),
    own_load=st.one_of(st.none(), OWN_LOADS),
    trace_time=st.booleans(),
    promised=st.booleans(),
    grace_s=st.sampled_from([0.0, 2.0]),
)
def test_a_snapshot_and_the_rest_are_the_whole(
    crowd: list[int], steps: list[Any], own_load: Any, trace_time: bool, promised: bool, grace_s: float
) -> None:
    told = spec(
        (4, 3), grace_s, own_load=own_load, trace_time=trace_time, renewal_s=2.0, overflow=not trace_time
    )
    live = FromSnapshots(told, harmless_table((4, 3)))
    live.take(live.owner.open(0.0, "2026-01-01T00:00:00+00:00"))
    for number, cores in enumerate(crowd):
        live.tell(reserve(f"crowd-{number}.1", cores, 30.0, 0.5 if promised else None))
    play(live, [(0.0, "crash"), *steps], trace_time, promised)
