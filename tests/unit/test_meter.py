"""When launches back to back have settled and what one takes, and the power that a counter tells,
with a clock and a counter that are simulated.
"""

import itertools
import math

import pytest
from ladder.devices.back_to_back import Meter, settle, typical

WATTS, IDLE = 500.0, 90.0


def watts(pauses, begin=10.03, since=0.1, step=0.1):
    """What a meter tells that is looked at after each of some pauses; the board draws `WATTS` from
    `begin` on, and counts every `step`.
    """
    now = begin

    def counter():
        at = now // step * step
        return int(1e3 * (IDLE * min(at, begin) + WATTS * max(at - begin, 0)))

    meter = Meter(counter, begin + since, lambda: now)
    for pause in pauses:
        now += pause
        meter.look(launching=True)
    return meter.watts()


def test_power_is_that_between_steps():
    assert watts([0.003] * 300) == pytest.approx(WATTS, rel=0.02)


def test_what_passed_while_nobody_looked_does_not_count():
    assert watts([2.345] + [0.003] * 200) == pytest.approx(WATTS, rel=0.02)
    assert watts([0.003] * 50 + [1.234] + [0.003] * 200) == pytest.approx(WATTS, rel=0.02)


def test_looking_leaves_time_to_launch():
    """However long the counter takes to answer: on one machine almost four milliseconds."""
    now = looking = 0.0

    def counter():
        nonlocal now, looking
        now, looking = now + 0.0037, looking + 0.0037
        return 0

    meter = Meter(counter, 0.0, lambda: now)
    begun, looking = now, 0.0
    while now < begun + 1:
        now += 1e-5  # what a launch takes the host
        meter.look(launching=True)
    assert 0.2 < looking < 0.26


def test_of_a_counter_that_hardly_moves_nothing_is_told():
    assert watts([0.003] * 60) is None
    assert watts([0.003] * 300, step=10) is None
    meter = Meter(lambda: None, 0.0)
    meter.look(launching=True)
    assert meter.watts() is None


def slow(launching, seconds=0.5):
    """A meter of a counter that takes 6 milliseconds to answer, and when it was asked."""
    now, asked = 0.0, []

    def counter():
        nonlocal now
        asked.append(now)
        reading = int(1e3 * WATTS * (now // 0.1 * 0.1))
        now += 0.006
        return reading

    meter = Meter(counter, 0.1, lambda: now)
    while now < seconds:
        now += 1e-5
        meter.look(launching)
    return meter.watts(), asked


def test_nobody_looks_while_launches_are_queued_up():
    _, asked = slow(True)
    assert [at for at in asked if at < 0.1] == [0.0]


def test_a_counter_that_is_slow_to_answer_is_looked_at_all_the_time_when_all_is_launched():
    assert slow(launching=True)[0] is None  # its steps lie somewhere in 24 milliseconds
    assert slow(launching=False)[0] == pytest.approx(WATTS, rel=0.05)


@pytest.mark.parametrize(
    ("us", "windows", "settled"),
    [
        (lambda window: 100.0, 9, True),
        (lambda window: 100.0 + 10 * math.exp(-window / 5), None, True),
        # neighbors agree at the turns of an oscillation
        (lambda window: 100.0 + 3 * math.cos(window / 6), None, False),
        (lambda window: 100.0 if window % 5 else 150.0, None, True),  # gaps
        (lambda window: 1e6, 2, True),  # a window of one launch
    ],
)
def test_launches_settle_when_windows_agree(us, windows, settled):
    number = itertools.count()
    last, agreed = settle(lambda calls: us(next(number)), us(0))
    assert agreed is settled
    assert windows in (None, next(number))
    assert not settled or 0.99 <= last / us(1001) <= 1.01


@pytest.mark.parametrize(
    ("windows", "us", "gaps"),
    [
        ([100.0] * 10, 100.0, False),
        ([100.0] * 9 + [200.0], 100.0, False),  # a window in which the device was idle
        ([100.0] * 7 + [110.0] * 3, 100.0, True),
        ([100.0], 100.0, False),
    ],
)
def test_gaps_do_not_move_a_sample_and_are_found(windows, us, gaps):
    assert typical(windows) == (us, gaps)
