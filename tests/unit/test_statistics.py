import numpy as np
import pytest
from ladder.statistics import geometric_mean, median_interval, median_ranks, paired_ratio, relative_half_width


def test_ranks_are_those_of_the_tables():
    # David and Nagaraja: 95 % intervals of the median are (x1, x6) for n = 6, (x2, x9) for 10, (x6, x15) for 20, (x40, x61) for 100
    for n, low, high in [(6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)]:
        assert median_ranks(n) == (low - 1, high - 1)
    assert median_ranks(1) == (0, 0)
    assert median_ranks(3) == (0, 2)


def test_known_answers():
    assert median_interval([5, 1, 4, 2, 3, 6, 10, 9, 8, 7]) == (5.5, 2, 9)
    assert relative_half_width([10] * 9 + [11]) == 0
    assert paired_ratio([2, 4, 6], [1, 2, 3]) == (2, 2, 2)
    assert geometric_mean([0.5, 2]) == pytest.approx(1)


@pytest.mark.parametrize("noise", ["normal", "lognormal", "bimodal"])
@pytest.mark.parametrize("n", [10, 25, 60])
def test_the_interval_covers_the_median(noise, n):
    random = np.random.default_rng(1)
    draw = {
        "normal": lambda: random.normal(10, 1, n), "lognormal": lambda: random.lognormal(0, 1, n) + 9,
        "bimodal": lambda: np.where(random.random(n) < 0.3, random.normal(12, 1, n), random.normal(10, 1, n)),
    }[noise]  # fmt: skip
    truth = {"normal": 10.0, "lognormal": 10.0, "bimodal": 10.4905}[noise]
    covered = np.mean([low <= truth <= high for _, low, high in (median_interval(draw()) for _ in range(4000))])
    assert 0.935 <= covered <= 0.99  # by whole ranks an interval covers 95 % or somewhat more


def test_pairing_takes_out_what_drifts():
    random = np.random.default_rng(2)
    drift = np.linspace(1, 1.5, 40)
    ours, theirs = 10 * drift * random.normal(1, 1e-3, 40), 8 * drift * random.normal(1, 1e-3, 40)
    ratio, low, high = paired_ratio(theirs, ours)
    assert low <= 0.8 <= high
    assert (high - low) / ratio < 0.003 < relative_half_width(ours)


@pytest.mark.parametrize("values", [[], [1, 0], [1, -1]])
def test_no_geometric_mean_of_what_has_none(values):
    with pytest.raises(ValueError, match="positive"):
        geometric_mean(values)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])
