"""What a cloud does not disclose, it does not tell readers of the version before, who know no such thing."""

import json

import pytest

from broker.contract import RefusalView, Reply
from broker.routing import TableSummary
from broker.versions import OLDEST_VERSION, written
from cloudsim.cloud_spec import CloudSpec
from cloudsim.volatile.disclosed_tables import shown_table, told_by
from cloudsim.volatile.information import SHARES, Disclosure
from tests.contract.twins import LIVES, NODES, table_of
from tests.unit.workers.owners import NOW, ask
from tests.upgrade.test_golden import JUDGES
from workers.owner.owner import Owner
from workers.owner.state import OwnerSpec


@pytest.mark.parametrize("level", [level for level in Disclosure if level is not Disclosure.FULL])
def test_the_version_before_reads_what_is_coarse_and_is_told_no_more(level: Disclosure) -> None:
    owner = Owner(OwnerSpec(CloudSpec("A", NODES, disclosure=level)), 1)
    owner.open(0.0, NOW)
    full = table_of(LIVES[level][0])
    owner.adopt(full, NOW)
    advert = json.loads(written(owner.advert(NOW), OLDEST_VERSION))
    JUDGES["advert"].validate(advert)
    assert "disclosure" not in advert
    assert (advert["free_cores"], advert["on_demand_cores"]) == (sum(NODES), 0)
    refused = owner.handle(ask(1, 60.0, 0.05), 0.0, NOW).replies[0][1]
    assert isinstance(refused.answer, RefusalView)
    told = json.loads(written(refused, OLDEST_VERSION))
    JUDGES["reply"].validate(told)
    assert told["answer"]["reason"] == "risk_too_high"
    assert Reply.model_validate(told).answer.answer == "refusal"
    summary = TableSummary.from_json(json.dumps(shown_table(told_by(full, level))))
    steps = {sla for cells in summary.cells.values() for cell in cells for sla, _ in cell.survives_s}
    assert steps == ({0.5, SHARES[level]} if level in SHARES else set())
