"""A cloud whose users call it directly, for replays.

Users start where there is room, headroom included, and ask nobody. Where there is none, the cloud's API
refuses them; its owner hears of it and frees room of that size, evicting spot, and they come again a little
later.
"""

from __future__ import annotations

from dataclasses import replace

from cloudsim.cloud.calendar import CalendarEntry, Rank
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.history.event_log import PHASE_ON_DEMAND
from cloudsim.history.own_load import Arrival
from cloudsim.model.changes import Change, End
from cloudsim.model.instances import Placement
from cloudsim.model.reserved_ids import FREED, FREED_S
from cloudsim.traces.trace import Trace

RETRY_S = 60.0


class DirectCloud(Cloud):
    """Cloud whose own users come again ``retry_s`` seconds after a refusal.

    Requests for which even evicting all spot would not help are turned away, as at any cloud.

    Attributes
    ----------
    delays_s
        Seconds from the first call to the start, for own requests that were refused and admitted later.
    """

    def __init__(self, spec: CloudSpec, own_load: Trace, own_load_until_s: float, retry_s: float):
        super().__init__(spec, own_load, own_load_until_s)
        self.delays_s: list[float] = []
        self._retry_s = retry_s

    def _come_again(self, entry: CalendarEntry) -> list[Change]:
        original, at_s = self._own_arrivals[entry.number], entry.at_s
        return self._play(replace(original, start_s=at_s, stop_s=at_s + original.stop_s - original.start_s))

    def _play(self, arrival: Arrival) -> list[Change]:
        original = self._own_arrivals[arrival.row]
        returns = arrival.start_s > original.start_s
        at_s, changes, freed = arrival.start_s, [], f"{self.spec.id}/{FREED}{arrival.row}"
        if returns:
            if self.inventory.waiting(freed) is not None:  # instances under notice are not gone yet
                return self._refuse(arrival)
            if freed in self.inventory:
                at_s = self.headroom.after_starts(at_s)
                changes = self._end_before(at_s)
                changes += self.end(freed, at_s, End.CANCELLED, f"{self._own_prefix}{arrival.row}")
        request = self._own_request(arrival)
        _, placement = self.headroom.find_room(self.inventory, request, self.spec.lineup, at_s)
        if isinstance(placement, Placement) and (placement.victims or placement.waits):
            block = replace(request, id=freed, lifetime_s=None)
            if isinstance(
                self.headroom.find_room(self.inventory, block, self.spec.lineup, at_s)[1], Placement
            ):
                until_s = at_s + max(FREED_S, 2 * self._retry_s)
                changes += self._start_on_demand(block, at_s, until_s)
            return changes + self._refuse(arrival)
        if returns and isinstance(placement, Placement):
            self.delays_s.append(at_s - original.start_s)
        return changes + self._start_on_demand(request, at_s, at_s + arrival.stop_s - arrival.start_s)

    def _refuse(self, arrival: Arrival) -> list[Change]:
        """Refuse a request; the user will come again."""
        name, at_s = f"{self._own_prefix}{arrival.row}", arrival.start_s + self._retry_s
        self._own_request_done(name)
        retry = CalendarEntry(at_s, PHASE_ON_DEMAND, Rank.RETRY, arrival.row, name, self._come_again)
        self.calendar.schedule(retry)
        return []
