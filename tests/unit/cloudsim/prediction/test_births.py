import numpy as np
import pytest

from cloudsim.prediction.births import BirthGrid, find_level

DAY_S = 86_400.0


def born(grid: BirthGrid, level: int, until_s: float, from_s: float = 0.0):
    return grid.within(np.array([from_s]), np.array([until_s]), level)


def test_a_number_is_born_in_its_own_cell_of_the_grid():
    grid = BirthGrid(seed=3, cores=4, births=100)
    number = np.arange(20_000)
    cell = grid.birth_s(number) / grid.width_s - number
    assert np.all((cell >= -1e-9) & (cell < 1 + 1e-9))
    # Uniform: mean 1/2 and variance 1/12 within four standard errors, and neighbours are independent.
    assert abs(cell.mean() - 0.5) < 4 * (1 / 12 / len(cell)) ** 0.5
    assert abs(cell.var() - 1 / 12) < 0.005
    assert abs(np.corrcoef(cell[1:], cell[:-1])[0, 1]) < 4 / len(cell) ** 0.5


def test_a_draw_is_a_function_of_seed_size_and_number_alone():
    number = np.arange(1000)
    one = BirthGrid(1, 4, 10).uniform(number)
    assert np.array_equal(one[::-1], BirthGrid(1, 4, 999).uniform(number[::-1].copy()))
    assert np.array_equal(one[500:501], BirthGrid(1, 4, 10).uniform(np.array([500])))
    for other in (BirthGrid(2, 4, 10), BirthGrid(1, 5, 10), BirthGrid(2**64 - 1, 4, 10)):
        assert not np.any(one == other.uniform(number))


def test_draws_are_these_bits_for_ever():
    """Samples that are kept somewhere meet samples that are made later: the draw may not change."""
    draws = BirthGrid(seed=42, cores=2, births=10).uniform(np.array([1, 2, 2**40]))
    assert draws.tolist() == [0.4001805501584017, 0.8917663997798919, 0.45040370015187314]


def test_first_draws_of_splitmix64():
    """The finalizer against the published outputs of SplitMix64 with state 1234567."""
    from cloudsim.prediction.births import _INCREMENT, _MASK, _finalize

    outputs = [_finalize((1234567 + n * _INCREMENT) & _MASK) for n in (1, 2, 3)]
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("births", [1, 7, 10_000])
def test_the_first_day_holds_many_more_births_than_wanted(births: int):
    number, birth_s = born(BirthGrid(0, 1, births), 0, DAY_S)
    assert len(number) in (32 * births - 1, 32 * births)
    assert np.all(np.diff(number) == 1)
    assert np.all(np.diff(birth_s) > 0)


def test_a_level_is_every_second_birth_of_the_one_below():
    grid = BirthGrid(9, 2, 50)
    below, births_below = born(grid, 3, 5 * DAY_S)
    above, births_above = born(grid, 4, 5 * DAY_S)
    assert np.array_equal(above, below[below % 16 == 0])
    assert np.array_equal(births_above, births_below[below % 16 == 0])


def test_a_number_is_in_exactly_one_of_neighbouring_spans():
    grid = BirthGrid(5, 8, 30)
    generator = np.random.default_rng(11)
    whole, births = born(grid, 1, DAY_S)
    # Bounds anywhere, and bounds that are births to the last bit.
    bounds = np.sort(np.concatenate((generator.uniform(0, DAY_S, 200), births[::3], [0.0, DAY_S])))
    number, birth_s = grid.within(bounds[:-1], bounds[1:], 1)
    assert np.array_equal(number, whole)
    assert np.array_equal(birth_s, births)
    halves = grid.within(bounds[:-1][::2], bounds[1:][::2], 1)[0]
    assert 0 < len(halves) < len(whole)
    assert np.all(np.isin(halves, whole))


def test_above_the_highest_level_there_are_too_few_births():
    for births in (1, 3, 100):
        grid = BirthGrid(1, 1, births)
        for until_s in (1.0, 3600.0, DAY_S, 1000 * DAY_S):
            level = grid.highest_level(until_s)
            assert len(born(grid, level + 1, until_s)[0]) < births


def test_divisible_by_power():
    number = np.array([1, 2, 3, 4, 6, 8, 12, 2**40, 3 * 2**35])
    assert find_level(number).tolist() == [0, 1, 0, 2, 1, 3, 2, 40, 35]
