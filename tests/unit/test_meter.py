"""The power that a counter tells, with a clock and a counter that are simulated."""

import pytest
from ladder.devices.meter import Meter

WATTS, IDLE = 500.0, 90.0


def watts(pauses, begin=10.03, since=0.1, step=0.1):
    """What a meter tells that is looked at after each of some pauses; the board draws `WATTS` from `begin` on, and counts every `step`."""
    now = begin

    def counter():
        at = now // step * step
        return int(1e3 * (IDLE * min(at, begin) + WATTS * max(at - begin, 0)))

    meter = Meter(counter, begin + since, lambda: now)
    for pause in pauses:
        now += pause
        meter.look()
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
        meter.look()
    assert 0.2 < looking < 0.26


def test_of_a_counter_that_hardly_moves_nothing_is_told():
    assert watts([0.003] * 60) is None
    assert watts([0.003] * 300, step=10) is None
    meter = Meter(lambda: None, 0.0)
    meter.look()
    assert meter.watts() is None
