"""Tables of a confirmation: the best of its finalists, their intervals and marks, and pairs of
kernels.
"""

import math

import numpy as np
import pytest
from rows import NEAR, again, made, row, summarize, swept, tables

BEST = swept("a") + again("k", "a", NEAR, "best")
"""The rows of one kernel in one configuration: the sweep's, and the confirmation's."""


def best(rows, within=0.0):
    """The only row of the table of the best."""
    (line,) = made(rows, within).to_dict("records")
    return line


def slower(configuration, factor, role="finalist", **given):
    return again("k", configuration, np.multiply(NEAR, factor), role, **given)


FOUR = swept("a", "b", "c", "d") + slower("a", 1, "best")
TIED = FOUR + again("k", "b", [0.9985, 1.0005, 0.9985]) + slower("c", 1.01)
"""`b` is faster, but not distinguishable from `a`; `c` is always slower, although the rounds differ
by 5 %.
"""


@pytest.mark.parametrize(
    ("rows", "within", "configuration", "tied"),
    [
        (TIED, 0.0, "a", "b"),
        (TIED, 0.02, "a", "b; c"),
        (TIED + slower("d", 0.99), 0.0, "d", ""),
        (FOUR + slower("d", 0.98) + slower("b", 0.99), 0.0, "d", ""),
        # what the sweep found wrong on one problem is no failure of the confirmation
        ([row(configuration="a", m=200, status="incorrect"), *BEST], 0.0, "a", ""),
    ],
)
def test_the_best_is_the_sweeps_unless_pairs_say_otherwise(rows, within, configuration, tied):
    line = best(rows, within)
    assert (line["configuration"], line["tied_with"]) == (configuration, tied)
    assert (line["interval"], line["processes"], line["samples"]) == ("between-process", 3, 18)
    assert line["frobenius_error"] == 1e-7


def test_intervals_of_the_best_are_between_processes():
    levels = [1.0, 1.02, 0.98]
    line = best(swept("a") + again("k", "a", levels, "best"))
    half = 4.303 * np.std(np.log(levels), ddof=1) / math.sqrt(3)
    middle = -np.log(levels).mean()
    for name, expected in (("", middle), ("_low", middle - half), ("_high", middle + half)):
        assert math.log(line[f"ratio{name}"]) == pytest.approx(expected, abs=1e-3)
    assert line["within_high"] / line["within_low"] < 1.001
    assert line["low_us"] < line["median_us"] < line["high_us"]
    assert line["tflops"] == pytest.approx(2 / line["median_us"])
    assert line["peak_fraction"] == pytest.approx(line["tflops"] / 2)


@pytest.mark.parametrize(
    ("joules", "expected"),
    [
        ([1.0, 3.0, 2.0], [2.0, 1.0, 3.0, 3, 1e-6]),
        ([1.0, None, 2.0], [1.5, 1.0, 2.0, 2, 2e-6 / 1.5]),
        ([None, None, 2.0], [2.0, math.nan, math.nan, 1, 1e-6]),
    ],
)
def test_energy_is_the_median_of_processes_with_its_range(joules, expected):
    rows = again("k", "a", NEAR, "best")
    for record, energy in zip(rows, joules, strict=True):
        record["energy_j"] = energy
        record["power_w"] = energy and energy / np.median(record["samples_us"]) * 1e6
    columns = ["energy_j", "energy_low_j", "energy_high_j", "energy_processes", "tflop_per_j"]
    (line,) = made(swept("a") + rows)[columns].astype(float).to_numpy().tolist()
    assert line == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("apart", "element_type", "ratio"),
    [
        (True, "float32", 4.0),
        (False, "float32", 4.4),
        (True, "bfloat16", 4.4),  # the reference uses them too
    ],
)
def test_the_reference_of_tensor_cores_is_that_of_the_rounds_without_them(
    apart, element_type, ratio
):
    rows = again("cublas", "-", [1.0] * 3, "best") + again(
        "k", "a", [0.25] * 3, "best", tensor_cores=apart
    )
    rows += swept("a") + swept("-", kernel="cublas")
    for record in rows:
        record["element_type"] = element_type
        if not record["process"]:
            continue
        mine = record["kernel"] == "k"
        record |= {"reference": "cublas", "key": f"{record['process']} {mine and apart}"}
        record["samples_us"] = [0.25 if mine else 1.0] * 6
        record["reference_us"] = [1.1 if mine else 1.0] * 6
    table = made(rows).set_index("kernel")
    assert table.loc["k", "ratio"] == pytest.approx(ratio)
    assert table.loc["k", "reference_us"] == pytest.approx(ratio / 4)
    # the reference beside itself: in its own rounds, and in the others
    pairs = compared(rows)
    assert pairs["null", "cublas"]["ratio"] == pytest.approx(1)
    beside = {"apart": pytest.approx(1 / 1.1)} if apart else {}
    assert {kind: each["ratio"] for (kind, _), each in pairs.items() if kind == "apart"} == beside


@pytest.mark.parametrize(
    ("factors", "stop", "left_out"),
    [
        ({}, "target", 2),
        ({"c": 1.01, "d": 1.03}, "target", 1),
        ({"c": 1.01, "d": 1.03}, "race", 0),  # what lost the race was found as near by nobody
    ],
)
def test_what_finalists_had_no_room_for_is_counted(factors, stop, left_out):
    rows = swept("a", "b", "c", "d")
    for record in rows:
        factor = factors.get(record["configuration"], 1)
        record |= {"samples_us": [2.0 * factor] * 10, "stop": stop}
    assert best(rows + slower("a", 1, "best") + slower("b", 1), 0.02)["left_out"] == left_out


def test_states_are_never_mixed():
    warm = slower("a", 1, "best") + slower("b", 1.01)
    cold = slower("a", 3, "best", state="cold") + slower("b", 2, state="cold")
    table = made(swept("a", "b") + warm + cold)
    assert dict(table[["state", "configuration"]].to_numpy()) == {"warm": "a", "cold": "b"}


def test_what_fails_in_the_confirmation_is_correct_nowhere():
    failed = row(configuration="a", role="best", process=2, status="incorrect", reason="much off")
    of_a = [
        *swept("a"),
        row(configuration="a", m=200, n=200, k=200),
        *again("k", "a", NEAR[:1], "best"),
        failed,
    ]
    rows = of_a + swept("b") + slower("b", 1)
    summary = summarize(rows).set_index(["configuration", "problem"])
    reason = "in the confirmation, on 100: much off"
    for problem in ("100", "200"):
        found = summary.loc[("a", problem)]
        assert (found["status"], found["reason"]) == ("incorrect", reason)
        assert math.isnan(found["tflops"])
    assert summary.loc[("b", "100"), "status"] == "correct"
    assert best(rows)["configuration"] == "b"
    line = best(of_a + again("other", "x", NEAR))
    assert [line[name] for name in ("kernel", "status", "processes")] == ["k", "incorrect", 0]
    assert line["reason"] == reason
    assert math.isnan(line["tflops"])


def test_a_control_is_no_configuration_of_its_kernel():
    control = swept("b", kernel="l") + again("l", "b", NEAR, "control")
    assert best(BEST + control)["kernel"] == "k"


RISING = list(np.linspace(1, 1.01, 12))


@pytest.mark.parametrize(
    ("given", "mark"),
    [
        ({}, ""),
        ({"samples_throttle_reasons": [0x4, *[0x1] * 9]}, "throttled"),
        ({"sm_clock_mhz": 1930.0}, ""),  # of at most 1980
        ({"sm_clock_mhz": 1910.0}, "throttled"),
        ({"stop": "settled; gaps"}, "gaps"),
        ({"samples_us": [1.0] * 8 + [1.06] * 2}, "multimodal"),
        ({"samples_us": RISING, "reference_us": [1.0] * 12}, "drifting"),
        ({"samples_us": [1.0] * 12, "reference_us": RISING}, "drifting"),
        ({"other_processes": 1}, "disturbed"),
        ({"other_processes": 0.0, "reference": "blas_1"}, ""),
        ({"stop": "race"}, "raced"),
        ({"stop": "race", "samples_us": [1.0, 1.2] * 5}, "multimodal; raced"),
    ],
)
def test_marks(given, mark):
    summary = summarize([row(**given)])
    assert summary["marks"].tolist() == [mark]
    if "stop" not in given:
        marks = f"{mark}; few".removeprefix("; ")  # the sweep is one process
        assert made([row(**given)])["marks"].tolist() == [marks]


@pytest.mark.parametrize(
    ("levels", "unsteady"),
    [
        (NEAR, False),
        ([1.05, 1.06, 1.07], False),
        ([1.11, 1.111, 1.112], True),
        ([0.9, 0.901, 0.902], True),
        ([0.9, 1.0, 1.1], True),  # about 1, and its interval is from 0.77 to 1.29
        ([0.95, 1.0, 1.05], False),
    ],
)
def test_where_the_reference_differs_from_itself_nothing_is_a_result(levels, unsteady):
    reference = swept("-", kernel="cublas") + again("cublas", "-", levels, "best")
    elsewhere = [record | {"m": 200} for record in BEST]
    table = made(BEST + reference + elsewhere).set_index(["kernel", "problem"])
    assert table["marks"].str.contains("unsteady").to_dict() == {
        ("k", "100"): unsteady,
        ("cublas", "100"): unsteady,
        ("k", "200x100x100"): False,
    }


def test_where_the_sweeps_reference_differs_from_itself_nothing_is_a_result():
    """The times there are twice the reference's."""
    rows = swept("a") + swept("-", kernel="cublas")
    assert set(made(rows)["marks"]) == {"few; unsteady"}


def test_processes_that_differ_are_two_modes_and_no_drift():
    assert "multimodal" in best(swept("a") + again("k", "a", [1.0, 1.01, 1.2], "best"))["marks"]
    rows = again("k", "a", NEAR, "best")
    for record in rows:  # the shared noise would hide the drift
        record |= {"samples_us": list(np.linspace(1, 1.01, 6)), "reference_us": [1.0] * 6}
    assert best(swept("a") + rows)["marks"] == "drifting"
    assert best(swept("a") + rows[:2])["marks"] == "drifting; few"


def compared(rows, binaries=()):
    """The table of pairs, by (pair, kernel)."""
    table = tables(rows, binaries=binaries)["pairs"]
    return {(line["pair"], line["kernel"]): line for line in table.to_dict("records")}


TWO = swept("-", kernel="01_a") + swept("-", kernel="02_b")


def test_pairs_are_of_the_rounds_in_which_both_were_timed_and_else_of_ratios_to_the_reference():
    first = again("01_a", "-", NEAR, "best", key="together")
    # which left early
    second = again("02_b", "-", np.divide(NEAR, 2), "best", rounds=3, key="together")
    assert compared(TWO + first + second)["gain", "02_b"]["ratio"] == pytest.approx(2, rel=1e-3)
    for record in second:  # of other rounds, at another clock
        times = np.random.default_rng(record["process"]).permutation(record["reference_us"]) * 3
        record |= {"key": "apart", "reference_us": list(times), "samples_us": list(times / 2)}
    assert compared(TWO + first + second)["gain", "02_b"]["ratio"] == pytest.approx(2, rel=1e-3)


def test_what_is_timed_apart_from_the_reference_uses_the_tensor_cores():
    keys = {"cublas": "beside", "01_a": "beside", "21_b": "apart", "cublaslt_best": "apart"}
    rows = [
        record
        for kernel, key in keys.items()
        for record in again(kernel, "-", NEAR, "best", key=key)
    ]
    table = made(rows)
    assert table.loc[table["tensor_cores"], "kernel"].tolist() == ["21_b"]


def test_pairs():
    levels = {
        "01_a": np.multiply(NEAR, 2),
        "02_b": NEAR,
        "03_c": [1.001, 0.999, 1.0],
        "64_ptx": NEAR,  # an example in another language is no rung
        "cublas": [1.0, 1.00001, 0.99999],
        "cublas_tf32": NEAR,  # no binary, like the other call, and no twin of it
    }
    rows = [record for kernel in levels for record in swept("-", kernel=kernel)]
    for kernel, times in levels.items():
        rows += again(kernel, "-", times, "best")
    rows += again("02_b", "twin", NEAR, "control")
    pairs = compared(rows, [("01_a", "-"), ("02_b", "twin"), ("02_b", "-")])
    assert {key: line["verdict"] for key, line in pairs.items()} == {
        ("gain", "02_b"): "faster",
        ("gain", "03_c"): "not distinguishable",
        ("null", "cublas"): "not distinguishable",
        ("twins", "01_a"): "slower",  # twice the time: no twin in truth
    }
    gain = pairs["gain", "02_b"]
    assert (gain["other"], gain["problem"], gain["processes"]) == ("01_a", "100", 3)
    assert gain["ratio"] == pytest.approx(2, rel=1e-3)
    assert gain["low"] < gain["ratio"] < gain["high"] < 2.1


def test_without_a_confirmation_gains_are_of_ratios_and_no_verdict():
    """The rounds of the second kernel were twice as slow, reference and all: its rate is half, and
    it is as fast.
    """
    rows = [row(kernel="01_a"), row(kernel="02_b", samples_us=[4.0] * 10, reference_us=[2.0] * 10)]
    (line,) = compared(rows).values()
    assert (line["pair"], line["ratio"], line["verdict"]) == ("gain", 1.0, "not confirmed")
    assert math.isnan(line["low"])
