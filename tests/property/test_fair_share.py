"""Fair shares, whatever is asked in whatever order."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from cloudsim.admission.fair_share import FairShare, held_cores
from cloudsim.cloud.cloud import Cloud
from cloudsim.cloud.spec import CloudSpec
from cloudsim.model.changes import End
from cloudsim.model.instances import Quote
from cloudsim.model.refusals import Refusal, RefusalReason
from cloudsim.model.requests import Kind, Request

WINDOW_S = 10.0
ORIGINS = ("a", "b", "c")


class Step(NamedTuple):
    """Seconds pass; then an origin asks for cores, or (cores 0) ends its oldest instance."""

    seconds: float
    origin: str
    cores: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from([0.0, 0.0, 1.0, 4.0, 11.0]),
        st.sampled_from(ORIGINS),
        st.sampled_from([0, 1, 1, 2, 3]),
    ),
    max_size=60,
)
NODES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
WEIGHTS = st.tuples(*(st.sampled_from([0.5, 1.0, 1.0, 3.0]) for _ in ORIGINS))


def play(cloud: Cloud, steps: list[Step], told: object = None) -> list[tuple[Step, Quote | Refusal]]:
    """The answers to those who ask. ``told`` hears of each before it is carried out."""
    answers: list[tuple[Step, Quote | Refusal]] = []
    for number, step in enumerate(steps):
        cloud.advance(cloud.now_s + step.seconds)
        if not step.cores:
            mine = [one for one in cloud.inventory.spot() if one.origin == step.origin]
            if mine:
                cloud.end(mine[0].id, cloud.now_s, End.CANCELLED)
            continue
        request = Request(f"r{number}", Kind.SPOT, step.cores, 1e6, origin=step.origin)
        before = held_cores(cloud.inventory)
        waiting = dict(cloud.contention.waiting_origins(cloud.now_s))
        answer = cloud.consider(request)
        if callable(told):
            told(request, answer, before, waiting)
        answers.append((step, answer))
        if isinstance(answer, Quote):
            assert not isinstance(cloud.admit(request, cloud.now_s), Refusal)
    return answers


@settings(max_examples=300)
@given(nodes=NODES, weights=WEIGHTS, steps=STEPS)
def test_nobody_starves_and_nobody_is_held_up_for_nobody(
    nodes: tuple[int, ...], weights: tuple[float, ...], steps: list[Step]
) -> None:
    rule = FairShare(WINDOW_S, tuple(zip(ORIGINS, weights, strict=True)))
    cloud = Cloud(CloudSpec("A", nodes, fair_share=rule))

    def judge(
        request: Request, answer: Quote | Refusal, held: dict[str, int], waiting: dict[str, float]
    ) -> None:
        others = set(waiting) - {request.origin}
        shares = rule.shares(cloud.inventory, {request.origin, *others})
        entitled = [origin for origin in others if held[origin] < shares[origin]]
        if isinstance(answer, Refusal) and answer.reason is RefusalReason.OVER_FAIR_SHARE:
            assert held[request.origin] >= shares[request.origin] > 0, "below its share, and refused for it"
            assert entitled, "refused for nobody"
        if isinstance(answer, Quote) and entitled:
            assert held[request.origin] < shares[request.origin], "it takes what others wait for"

    play(cloud, steps, judge)


@settings(max_examples=100)
@given(nodes=NODES, steps=STEPS)
def test_who_is_alone_is_never_limited(nodes: tuple[int, ...], steps: list[Step]) -> None:
    mine = [step._replace(origin="a") for step in steps]
    fair = Cloud(CloudSpec("A", nodes, fair_share=FairShare(WINDOW_S)))
    assert play(fair, mine) == play(Cloud(CloudSpec("A", nodes)), mine)


@settings(max_examples=200)
@given(
    cores=st.integers(1, 40),
    wishes=st.dictionaries(
        st.sampled_from("abcdef"), st.tuples(st.integers(0, 12), st.sampled_from([0.5, 1.0, 2.0])), min_size=1
    ),
    wanting=st.sets(st.sampled_from("abcdef"), min_size=1),
)
def test_shares_give_away_all_and_nobody_who_wants_more_gets_less_than_another(
    cores: int, wishes: dict[str, tuple[int, float]], wanting: set[str]
) -> None:
    """Max-min: who wants more has, for its weight, no less than anybody; and together they have it all."""
    rule = FairShare(1.0, tuple((origin, weight) for origin, (_, weight) in wishes.items()))
    cloud = Cloud(CloudSpec("A", (cores,), fair_share=rule))
    for origin, (held, _) in wishes.items():
        if held and not isinstance(
            cloud.quote(one := Request(origin, Kind.SPOT, held, 1e6, origin=origin)), Refusal
        ):
            cloud.admit(one, 0.0)
    held_now = held_cores(cloud.inventory)
    shares = rule.shares(cloud.inventory, wanting)
    given_away = {
        origin: share if origin in wanting else min(share, held_now[origin])
        for origin, share in shares.items()
    }
    assert abs(sum(given_away.values()) - cores) < 1e-9 * cores
    level = max(shares[origin] / rule.weight(origin) for origin in wanting)
    for origin in wanting:
        assert abs(shares[origin] / rule.weight(origin) - level) < 1e-9 * level
