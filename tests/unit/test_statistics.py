import numpy as np
import pytest
from ladder.core.stats import (
    DRIFT,
    between_processes,
    geometric_mean,
    median_interval,
    median_ranks,
    paired_ratio,
    relative_half_width,
    student_t,
    tied,
    trend,
    within_processes,
)


def test_ranks_are_those_of_the_tables():
    # David and Nagaraja: intervals of at least 95 % by whole ranks are (x1, x6) for n = 6, (x2, x9)
    # for 10, (x6, x15) for 20
    for n, rank, covered in [(6, 1, 31 / 32), (10, 2, 1 - 22 / 1024), (20, 6, 0.9586105346679688)]:
        # what whole ranks cover needs no interpolation
        assert median_ranks(n, covered) == (rank - 1, 0.0)
        assert median_ranks(n)[0] == rank - 1
        assert 0 < median_ranks(n)[1] < 1
    for n in (1, 2, 3, 5):
        assert median_ranks(n) == (0, 0.0)


def test_known_answers():
    # Hettmansperger and Sheather for n = 10: (0.97852 - 0.95) / (0.97852 - 0.89063) = 0.3244; 8 *
    # 0.3244 / (2 + 6 * 0.3244) = 0.6577
    ends = median_interval([5, 1, 4, 2, 3, 6, 10, 9, 8, 7])
    assert ends == pytest.approx((5.5, 2.6577, 8.3423), abs=1e-4)
    assert median_interval([1, 2, 3]) == (2, 1, 3)
    assert median_interval([4]) == (4, 4, 4)
    assert relative_half_width([10] * 9 + [11]) == 0
    assert paired_ratio([2, 4, 6], [1, 2, 3]) == (2, 2, 2)
    assert geometric_mean([0.5, 2]) == pytest.approx(1)
    assert tied([9, 7, 5, 9.5], [11, 9, 8, 12], best=0).tolist() == [False, True, False, True]


def test_a_trend_is_told_from_noise():
    assert trend([1, 2, 3, 4, 5]) == pytest.approx((10 - 1) / np.sqrt(5 * 4 * 15 / 18))
    assert trend([5, 4, 3, 2, 1]) == -trend([1, 2, 3, 4, 5])
    # with ties, by hand: S = 4, variance (4*3*13 - 2*1*9) / 18
    assert trend([1, 1, 2, 3]) == pytest.approx((5 - 1) / np.sqrt((4 * 3 * 13 - 2 * 1 * 9) / 18))
    assert trend([3, 3, 3]) == 0
    random = np.random.default_rng(3)
    assert np.mean([abs(trend(random.normal(size=30))) > DRIFT for _ in range(2000)]) < 0.004


def test_a_trend_is_looked_for_within_series_and_not_across():
    rising = [[1, 2, 3], [1, 2, 3]]
    assert trend(*rising) == pytest.approx((6 - 1) / np.sqrt(2 * 3 * 2 * 11 / 18))
    random = np.random.default_rng(4)
    steps = [[5 * process + random.normal(size=8) for process in range(5)] for _ in range(500)]
    assert np.mean([abs(trend(*processes)) > DRIFT for processes in steps]) < 0.01
    assert np.mean([abs(trend(np.concatenate(processes))) > DRIFT for processes in steps]) > 0.99


NOISE = {
    "normal": (lambda random, size: random.normal(10, 1, size), 10.0),
    "lognormal": (lambda random, size: random.lognormal(0, 1, size), 1.0),
    "exponential": (lambda random, size: random.exponential(1, size), np.log(2)),
    "uniform": (lambda random, size: random.random(size), 0.5),
    "heavy tails": (lambda random, size: random.standard_cauchy(size), 0.0),
    "two modes": (
        lambda random, size: random.normal(0, 1, size) + 2 * (random.random(size) < 0.3),
        0.4905,
    ),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("n", [10, 12, 17, 25, 40, 60])
def test_the_interval_covers_the_median(noise, n):
    draw, truth = NOISE[noise]
    samples = draw(np.random.default_rng(n), (4000, n))
    _, low, high = median_interval(samples)
    covered = np.mean((low <= truth) & (truth <= high))
    assert 0.93 <= covered <= 0.97


def test_pairing_takes_out_what_drifts():
    random = np.random.default_rng(2)
    drift = np.linspace(1, 1.5, 40)
    ours, reference = (us * drift * random.normal(1, 1e-3, 40) for us in (10, 8))
    ratio, low, high = paired_ratio(reference, ours)
    assert low <= 0.8 <= high
    assert (high - low) / ratio < 0.003 < relative_half_width(ours)


@pytest.mark.parametrize("values", [[], [1, 0], [1, -1]])
def test_no_geometric_mean_of_what_has_none(values):
    with pytest.raises(ValueError, match="positive"):
        geometric_mean(values)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_student_is_that_of_the_tables():
    # Abramowitz and Stegun, table 26.10, for probabilities of 95 % and 99 %
    for degrees, at_95, at_99 in [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (4, 2.776, 4.604),
        (7, 2.365, 3.499),
        (120, 1.980, 2.617),
    ]:
        assert student_t(degrees) == pytest.approx(at_95, abs=5e-4)
        assert student_t(degrees, 0.99) == pytest.approx(at_99, abs=5e-4)
    # between whole ones it is continuous, and falls
    for degrees in (1, 2, 7, 120):
        near = student_t(degrees + 1e-6), student_t(degrees - 1e-6 * (degrees > 1))
        assert near == pytest.approx([student_t(degrees)] * 2, rel=1e-4)
        assert student_t(degrees) > student_t(degrees + 0.5) > student_t(degrees + 1)
    with pytest.raises(ValueError, match="no degrees of freedom"):
        student_t(0)


def test_processes_by_hand():
    # medians 1, e and e squared: mean 1 and standard deviation 1 of the logarithms, so the
    # half-width is 4.303 / sqrt(3)
    middle, low, high = between_processes([[1, 1, 9], [np.e], [np.e**2, np.e, np.e**2]])
    assert middle == pytest.approx(np.e)
    assert np.log([low, high]).tolist() == pytest.approx([1 - 2.4841, 1 + 2.4841], abs=1e-4)
    assert between_processes([[2, 2, 2]]) == (pytest.approx(2), 0, np.inf)
    assert within_processes([[1, 1, 1], [4, 4, 4]]) == (pytest.approx(2), pytest.approx(2))
    assert within_processes([[1, 2, 4], [1, 2, 4]]) == (pytest.approx(1), pytest.approx(4))
    with pytest.raises(ValueError, match="no processes"):
        between_processes([])


TAILS = {
    "normal": lambda random, size: random.normal(0, 1, size),
    "heavy tails": lambda random, size: random.standard_t(2, size),
}


@pytest.mark.parametrize("processes", [3, 5, 8])
@pytest.mark.parametrize("noise", TAILS)
@pytest.mark.parametrize("sd", [(0.01, 0.02, 0.003), (0.0, 0.02, 0.003), (0.01, 0.0, 0.0005)])
def test_the_between_process_interval_covers_what_more_processes_would_find(processes, noise, sd):
    """Log times of two kernels: kernel + process (its own for each kernel) + round (shared) +
    noise. The quotient is known: 1.02.
    """
    random, trials, rounds = np.random.default_rng(11), 4000, 8
    of_process, of_round, of_noise = sd
    shared = of_round * TAILS[noise](random, (trials, processes, rounds))
    first, second = (
        kernel
        + of_process * random.normal(0, 1, (trials, processes, 1))
        + shared
        + of_noise * TAILS[noise](random, (trials, processes, rounds))
        for kernel in (3.0, 3.0 + np.log(1.02))
    )
    intervals = [between_processes(pairs) for pairs in np.exp(second - first)]
    assert 0.93 <= np.mean([low <= 1.02 <= high for _, low, high in intervals]) <= 0.97
    if of_process:  # and the within-run interval does not
        ends = map(within_processes, np.exp(second - first))
        assert np.mean([low <= 1.02 <= high for low, high in ends]) < 0.85
