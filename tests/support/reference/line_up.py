"""Replay with one virtual instance by the scheduler itself: what ``LineUpSampler`` must equal.

It is hundreds of times slower. It uses ``Inventory`` and ``plan``, and shares nothing with the kernel but
the log.
"""

from __future__ import annotations

from cloudsim.history.event_log import EventLog
from cloudsim.model.requests import Amounts
from cloudsim.prediction.samplers.plain import VIRTUAL, ReplayedCloud
from cloudsim.prediction.samplers.replay import SamplerSpec
from tests.support.reference.youngest_first import ReferenceSample


def replay(
    spec: SamplerSpec, events: EventLog, until_s: float, cores: int, birth_s: float, amounts: Amounts = ()
) -> ReferenceSample | None:
    """Replay a virtual spot instance of a flavour until its eviction or ``until_s``.

    None when there is no free slot at its birth.

    Parameters
    ----------
    events
        The whole history from an empty cloud.
    birth_s
        Time of birth in seconds.
    """
    cloud = ReplayedCloud(spec)
    born: int | None = None
    for row, time_s in enumerate(events.time_s.tolist()):
        if time_s >= until_s:
            break
        if born is None and time_s > birth_s:
            born = cloud.give_birth(cores, amounts, birth_s)
            if born == 0:
                return None
        cloud.play(events, row)
        if born and VIRTUAL not in cloud.inventory:
            return ReferenceSample(born, time_s - birth_s, True)
    if born is None:
        born = cloud.give_birth(cores, amounts, birth_s)
    return ReferenceSample(born, until_s - birth_s, False) if born else None
