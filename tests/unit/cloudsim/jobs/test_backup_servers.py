"""Backup replicas share servers: how many, how long they are up, and what jobs pay of that."""

from cloudsim.jobs.attempts import Charge
from cloudsim.jobs.backup_servers import pack_backups

HOUR = 3600.0


def backup(start_h: float, end_h: float, share: float, instances: int = 1) -> Charge:
    return Charge(None, start_h * HOUR, end_h * HOUR, 0.0, instances, share)


def test_five_fifths_fit_one_server_and_a_sixth_needs_another() -> None:
    five = pack_backups([backup(0, 2, 0.2)] * 5)
    assert (five.servers, five.up_hours, five.paid_hours) == (1, 2.0, 2.0)
    six = pack_backups([backup(0, 2, 0.2)] * 6)
    assert (six.servers, six.up_hours) == (2, 4.0)
    assert abs(six.paid_hours - 2.4) < 1e-9


def test_a_server_is_down_between_its_jobs_and_used_again() -> None:
    found = pack_backups([backup(10, 11, 0.5), backup(0, 2, 0.5), backup(1, 3, 0.5)])
    assert (found.servers, found.up_hours, found.paid_hours) == (1, 4.0, 2.5)


def test_shares_that_have_gone_leave_room() -> None:
    found = pack_backups([backup(0, 1, 0.6), backup(0, 3, 0.4), backup(1, 2, 0.6), backup(1.5, 3, 0.2)])
    assert found.servers == 2
    assert found.up_hours == 3 + 1.5


def test_parallel_jobs_hold_a_share_for_each_instance() -> None:
    found = pack_backups([backup(0, 1, 0.3, instances=4)])
    assert (found.servers, found.up_hours) == (2, 2.0)
    assert abs(found.paid_hours - 1.2) < 1e-9


def test_spot_and_whole_instances_are_left_out() -> None:
    assert pack_backups([Charge(1, 0.0, HOUR, 0.1), Charge(None, 0.0, HOUR, 1.0)]) == pack_backups([])
