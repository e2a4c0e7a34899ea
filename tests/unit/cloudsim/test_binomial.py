import pytest

from cloudsim.model.binomial import clopper_pearson


@pytest.mark.parametrize(
    ("events", "trials", "bounds"),
    [  # scipy.stats.binomtest(events, trials).proportion_ci(method="exact")
        (0, 0, (0.0, 1.0)),
        (0, 1, (0.0, 0.975)),
        (1, 1, (0.025, 1.0)),
        (0, 100, (0.0, 0.036217)),
        (1, 66, (0.000384, 0.081552)),
        (21, 158, (0.084194, 0.195968)),
        (7, 10, (0.347547, 0.933260)),
        (100, 100, (0.963783, 1.0)),
        (3900, 10_000, (0.380423, 0.399641)),
    ],
)
def test_exact_intervals(events: int, trials: int, bounds: tuple[float, float]) -> None:
    assert clopper_pearson(events, trials) == pytest.approx(bounds, abs=1e-6)


def test_more_confidence_is_a_wider_interval() -> None:
    low, high = clopper_pearson(5, 100)
    wider_low, wider_high = clopper_pearson(5, 100, 0.99)
    assert wider_low < low < 0.05 < high < wider_high
