"""Predictions under any line-up: whose replays they are, for which flavours, and what grace does to them."""

from dataclasses import replace

import numpy as np
import pytest

from cloudsim.admission.rule import PAPERS_ADMISSION, examine
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec, sampler_spec
from cloudsim.federation.model import FederatedCloud, Federation, Workload
from cloudsim.federation.replay import replay
from cloudsim.history.event_log import EventLog
from cloudsim.model.errors import InputError, SpecError
from cloudsim.model.nodes import NodeDetails
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request
from cloudsim.prediction.predictor import LocalPredictor, Sampler, replay_sampler
from cloudsim.prediction.rule import PredictionRule
from cloudsim.prediction.samplers.line_up import LineUpSampler
from cloudsim.prediction.samplers.plain import ReplayedCloud
from cloudsim.prediction.samplers.replay import ReplaySampler, SamplerSpec
from cloudsim.prediction.samplers.uniform import UniformSampler
from cloudsim.prediction.samples import Samples
from cloudsim.prediction.tables import QuantileTable
from cloudsim.scheduling.inventory import Inventory
from cloudsim.scheduling.lineups import LINEUPS, PARTIAL_HOUR, SPOT_LAST_FIT, LineUp
from cloudsim.traces.synthesis import lognormal_trace
from tests.unit.cloudsim.prediction.clouds import DAY_S, NORTH, lived, part, random_details, random_log

NODES = (8, 8, 6)
BOUNDS = (DAY_S / 4, DAY_S / 2, DAY_S)
NAMES = [lineup.name for lineup in LINEUPS]


def fed(one, log: EventLog, bounds: tuple[float, ...] = BOUNDS):
    for until_s in bounds:
        one.feed(part(log, one.until_s, until_s), until_s)
    return one


def detailed(seed: int, *, resources: int = 1) -> tuple[NodeDetails, EventLog]:
    generator = np.random.default_rng(seed)
    log = random_log(generator, NODES, 400, mean_s=4000.0)
    return random_details(generator, len(NODES), log, resources=resources, labels=True, groups=True)


@pytest.mark.parametrize("always_youngest", [False, True])
@pytest.mark.parametrize("horizon_s", [np.inf, DAY_S / 8])
def test_youngest_job_first_gives_the_bits_of_the_fast_replays(always_youngest: bool, horizon_s: float):
    log = random_log(np.random.default_rng(3), NODES, 400, mean_s=4000.0)
    spec = SamplerSpec(NODES, 3, births=100, always_youngest=always_youngest, horizon_s=horizon_s)
    for share in range(3):
        slow, fast = LineUpSampler(spec, 2, share, 3), ReplaySampler(spec, 2, share, 3)
        for until_s in BOUNDS:
            fed(slow, log, (until_s,))
            fed(fast, log, (until_s,))
            assert slow.samples() == fast.samples()
    assert 0 < np.count_nonzero(slow.samples().evicted) < len(slow.samples())


@pytest.mark.parametrize("name", NAMES)
def test_any_boundaries_and_shares_give_the_same_bits(name: str):
    details, log = detailed(5)
    spec = SamplerSpec(NODES, 3, births=60, lineup=name, details=details)
    whole = fed(LineUpSampler(spec, 2, amounts=(("disk_gb", 1),)), log, (DAY_S,)).samples()
    odd = (*np.random.default_rng(5).choice(log.time_s, 8).tolist(), DAY_S)
    parts = [
        fed(LineUpSampler(spec, 2, share, 3, (("disk_gb", 1),)), log, tuple(sorted(odd)))
        for share in range(3)
    ]
    assert Samples.merge([one.samples() for one in parts]) == whole
    assert np.count_nonzero(whole.evicted) > 30


def test_line_ups_shape_the_lifetimes():
    log = random_log(np.random.default_rng(7), NODES, 400, mean_s=4000.0)
    found = {
        fed(replay_sampler(SamplerSpec(NODES, 3, births=200, lineup=name), 2), log).samples().to_bytes()
        for name in NAMES
    }
    assert len(found) >= len(NAMES) - 2  # the log has no promises: some line-ups agree


def test_a_log_of_other_resources_leaves_no_trace():
    details, log = detailed(5)
    spec = SamplerSpec(NODES, 3, births=60, lineup="partial-hour", details=details)
    one, other = LineUpSampler(spec, 2), LineUpSampler(spec, 2)
    assert log.details is not None
    for wrong, message in (
        (detailed(5, resources=2)[1].details, "the cloud has"),
        (log.details.rows(slice(3)), "same length"),
        (replace(log.details, amounts=-log.details.amounts), "0 or more"),
        (replace(log.details, labels=log.details.labels + 1), "one of the log's sets"),
    ):
        with pytest.raises(InputError, match=message):
            one.feed(replace(log, details=wrong), DAY_S)
    with pytest.raises(InputError, match="not within"):
        one.feed(log, DAY_S / 4)
    with pytest.raises(InputError, match="those of the logs before"):
        one.feed(replace(log, details=replace(log.details, label_sets=(NORTH, NORTH, NORTH))), DAY_S)
    assert fed(one, log).samples() == fed(other, log).samples()
    with pytest.raises(SpecError, match="no line-up is called"):
        Sampler(replace(spec, lineup="by-name"), 2)


# -- the cloud's own history ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lineup", LINEUPS, ids=NAMES)
def test_the_recorded_history_replayed_is_the_cloud_itself(lineup: LineUp):
    for seed in range(3):
        cloud = lived(NODES, lineup, seed)
        until_s = float(np.nextafter(cloud.now_s, np.inf))
        log = cloud.history.cut(until_s)
        log = EventLog.from_bytes(log.to_bytes())
        reference = ReplayedCloud(sampler_spec(cloud.spec, 1, 10))
        for row in range(len(log)):
            reference.play(log, row)
        expected_instances = {one.id: (one.node, one.sla) for one in reference.inventory}
        assert expected_instances == {str(one.number): (one.node, one.sla) for one in cloud.inventory}
        assert reference.evictions > 5


def test_details_of_starts_are_cut_and_travel():
    whole = lived(NODES, PARTIAL_HOUR, 1)
    until_s = whole.now_s
    pieces = lived(NODES, PARTIAL_HOUR, 1)
    logs = [pieces.history.cut(at_s) for at_s in (until_s / 3, until_s / 2, until_s)]
    log = whole.history.cut(until_s)
    assert EventLog.concatenate(logs).to_bytes() == log.to_bytes()
    assert EventLog.concatenate([EventLog.empty(), log]).to_bytes() == log.to_bytes()
    details = EventLog.from_bytes(log.to_bytes()).details
    assert details is not None
    assert details.label_sets == (frozenset(), NORTH)
    for wrong in (log.to_bytes()[:-1], log.to_bytes() + b"x", log.to_bytes()[:10]):
        with pytest.raises(ValueError, match=r"take \d+ bytes|cut off"):
            EventLog.from_bytes(wrong)


def test_a_plain_cloud_records_no_details():
    assert Cloud(CloudSpec("A", NODES)).history.cut(1.0).details is None
    assert Cloud(CloudSpec("A", NODES, lineup=PARTIAL_HOUR)).history.cut(1.0).details is not None


# -- which sampler -------------------------------------------------------------------------------------------


def inner(one: Sampler) -> type:
    return type(one._sampler)


def test_the_fast_path_is_for_youngest_job_first_on_cores_alone():
    plain = SamplerSpec(NODES, 1, births=50)
    details = NodeDetails((("memory_mb", (9, 9, 9)),))
    assert type(replay_sampler(plain, 1)) is ReplaySampler
    for other in (replace(plain, lineup="oldest-job-first"), replace(plain, details=details)):
        assert type(replay_sampler(other, 1)) is LineUpSampler
        assert inner(Sampler(other, 1)) is LineUpSampler
    # Where all is of one size the place does not matter.
    assert inner(Sampler(replace(plain, lineup=SPOT_LAST_FIT.name), 1)) is UniformSampler
    log = random_log(np.random.default_rng(0), NODES, 50)
    assert inner(fed(Sampler(plain, 1), log)) is ReplaySampler
    assert inner(fed(Sampler(replace(plain, lineup=SPOT_LAST_FIT.name), 1), log)) is LineUpSampler


def test_uniform_sizes_do_not_depend_on_where_instances_go():
    generator = np.random.default_rng(4)
    log = random_log(generator, NODES, 300, mean_s=4000.0)
    log = replace(log, cores=np.full(len(log), 2))
    exact = fed(UniformSampler(SamplerSpec(NODES, 1), 2), log).samples()
    spec = SamplerSpec(NODES, 1, births=100, lineup=SPOT_LAST_FIT.name)
    drawn = fed(LineUpSampler(spec, 2), log).samples()
    rows = np.searchsorted(exact.birth_s, drawn.birth_s, side="right") - 1
    ends_s = (exact.birth_s + exact.duration_s)[rows]
    assert np.allclose(drawn.birth_s + drawn.duration_s, ends_s)
    assert np.array_equal(drawn.evicted, exact.evicted[rows])


# -- grace ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lineup", ["youngest-job-first", "partial-hour"])
@pytest.mark.parametrize("cores", [None, 2])
def test_with_grace_an_instance_lives_on_after_its_notice(lineup: str, cores: int | None):
    log = random_log(np.random.default_rng(9), NODES, 400, mean_s=4000.0)
    if cores is not None:
        log = replace(log, cores=np.full(len(log), cores))
    spec = SamplerSpec(NODES, 3, births=100, lineup=lineup)
    told = replace(spec, grace_s=600.0)
    plain, late = LocalPredictor(spec, [2]).table(log, DAY_S), LocalPredictor(told, [2]).table(log, DAY_S)
    before, after = plain.samples[2, ()], late.samples[2, ()]
    assert np.array_equal(after.duration_s, before.duration_s + 600.0)
    assert np.array_equal(after.evicted, before.evicted)
    assert plain.version != late.version
    assert plain.version == LocalPredictor(replace(spec, grace_s=0.0), [2]).table(log, DAY_S).version
    slots = int(np.median(before.free_slots))
    # Risk(L) = P(notice + grace < L).
    for lifetime_s in (900.0, 3600.0, 7200.0, 20_000.0):
        assert late.estimate(2, slots, lifetime_s + 600.0).eviction_probability == pytest.approx(
            plain.estimate(2, slots, lifetime_s).eviction_probability
        )
    assert late.estimate(2, slots, 600.0).eviction_probability == 0.0


def test_the_cloud_says_what_its_tables_are_made_from():
    details = NodeDetails((("memory_mb", (9, 9, 9)),))
    spec = CloudSpec("A", NODES, details, PARTIAL_HOUR, grace_s=120.0)
    assert sampler_spec(spec, 7, 50) == SamplerSpec(
        NODES, 7, 50, details=details, lineup="partial-hour", grace_s=120.0
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("grace_s", -1.0),
        ("grace_s", np.inf),
        ("sla", 1.0),
        ("details", NodeDetails((("memory_mb", (1, 2)),))),
        ("details", NodeDetails((), (NORTH,))),
    ],
)
def test_a_spec_that_makes_no_sense_is_refused(field: str, value: object):
    with pytest.raises(SpecError) as caught:
        SamplerSpec(NODES, 1, **{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


# -- flavours ------------------------------------------------------------------------------------------------

MEMORY = (("memory_mb", 7),)


def flavours_table(*flavours, rule: PredictionRule | None = None) -> QuantileTable:
    generator = np.random.default_rng(2)
    log = random_log(generator, NODES, 400, mean_s=4000.0)
    _, log = random_details(generator, 3, log, resources=1, labels=False, groups=False)
    assert log.details is not None
    log = replace(log, details=replace(log.details, resources=("memory_mb",)))
    details = NodeDetails((("memory_mb", (16, 12, 8)),))
    spec = SamplerSpec(NODES, 1, births=200, details=details)
    predictor = LocalPredictor(spec, flavours, rule or PredictionRule())
    assert predictor.sizes == (1, 2)
    return predictor.table(log, DAY_S)


def test_a_table_has_a_part_for_each_flavour():
    made = flavours_table(1, (2, ()), (2, MEMORY))
    assert made.sizes == (1, 2)
    assert made.has(2) and made.has(2, MEMORY) and not made.has(1, MEMORY)  # noqa: PT018
    small, large = made.samples[2, ()], made.samples[2, MEMORY]
    assert int(large.free_slots.max()) == 2 + 1 + 1
    assert int(small.free_slots.max()) > 4
    assert np.mean(large.duration_s) != np.mean(small.duration_s)
    shown = {(row["cores"], tuple(row.get("amounts", {}).items())) for row in made.rows()}
    assert shown == {(1, ()), (2, ()), (2, MEMORY)}
    assert Samples.from_bytes(large.to_bytes()) == large
    assert Samples.from_bytes(large.to_bytes()).amounts == MEMORY
    with pytest.raises(ValueError, match="different flavours"):
        Samples.merge([small, replace(small, amounts=MEMORY)])
    with pytest.raises(ValueError, match=r"cut off|take"):
        Samples.from_bytes(large.to_bytes()[:45])
    assert made.version != flavours_table(1, (2, MEMORY)).version


def test_a_request_is_examined_by_the_table_of_its_flavour():
    made = flavours_table(1, (2, MEMORY))
    inventory = Inventory(NODES, NodeDetails((("memory_mb", (16, 12, 8)),)))
    wanted = Request("r", Kind.SPOT, 2, 600.0, 0.5, amounts=MEMORY)
    quote = examine("A", wanted, inventory, made, DAY_S, PAPERS_ADMISSION)
    assert quote.free_slots == 4
    assert quote.eviction_probability == made.estimate(2, 4, 600.0, MEMORY).eviction_probability
    other = examine("A", replace(wanted, amounts=()), inventory, made, DAY_S, PAPERS_ADMISSION)
    assert isinstance(other, Refusal)
    assert other.reason is RefusalReason.NO_TABLE


def test_a_replay_keeps_promises_to_flavours_under_a_line_up_of_its_own():
    loads = [lognormal_trace(np.random.default_rng(seed), hours=48, name=f"t{seed}") for seed in (1, 2)]
    details = NodeDetails((("memory_mb", (6,) * 8), ("gpus", (0,) * 8)), flavours=((1, (("memory_mb", 2),)),))
    spec = CloudSpec("c", (4,) * 8, details, PARTIAL_HOUR, grace_s=60.0)
    workload = Workload("o", loads[1], DAY_S / 2, 0.2, ("c",))
    federation = Federation(
        (FederatedCloud(spec, "8x4", loads[0]),), (workload,), flavours={1: (("memory_mb", 3),)}
    )
    assert federation.spot_flavours(federation.clouds[0]) == ((1, (("memory_mb", 3),)),)
    assert federation.spot_sizes(federation.clouds[0]) == (1,)
    origin = replay(federation, seed=0, births=100)["origins"]["o"]
    assert origin["admitted"] > 100
    assert origin["evicted"] <= 0.2 * origin["admitted"]
    elsewhere = replace(federation, flavours={1: (("disk_gb", 3),)})
    assert elsewhere.spot_flavours(federation.clouds[0]) == ()
