"""Tables of a confirmation: the best of its finalists, their intervals and marks, and pairs of kernels."""

import math

import numpy as np
import pandas as pd
import pytest
from ladder.analysis import tables
from ladder.analysis.finalists import Finalists
from ladder.analysis.measurements import labelled
from rows import NEAR, again, made, row, summarise, swept


def test_the_best_is_the_sweeps_unless_pairs_say_otherwise():
    """`b` is faster, but not distinguishable from `a`; `c` is always slower by 1 %, `d` faster, although the rounds differ by 5 %."""
    rows = swept("a", "b", "c", "d") + again("k", "a", NEAR, "best")
    rows += again("k", "b", [0.9985, 1.0005, 0.9985]) + again("k", "c", np.multiply(NEAR, 1.01))
    (line,) = made(rows).to_dict("records")
    assert (line["configuration"], line["tied_with"], line["configurations"]) == ("a", "b", 4)
    assert (line["interval"], line["processes"], line["samples"]) == ("between-process", 3, 18)
    assert line["frobenius_error"] == 1e-7
    (line,) = made(rows, within=0.02).to_dict("records")
    assert line["tied_with"] == "b; c"
    (line,) = made(rows + again("k", "d", np.multiply(NEAR, 0.99))).to_dict("records")
    assert (line["configuration"], line["tied_with"]) == ("d", "")
    fastest = again("k", "d", np.multiply(NEAR, 0.98)) + again("k", "b", np.multiply(NEAR, 0.99))
    (line,) = made(swept("a", "b", "d") + again("k", "a", NEAR, "best") + fastest).to_dict("records")
    assert (line["configuration"], line["tied_with"]) == ("d", "")


def test_what_the_sweep_found_wrong_on_one_problem_is_no_failure_of_the_confirmation():
    rows = [*swept("a"), row(configuration="a", m=200, status="incorrect"), *again("k", "a", NEAR, "best")]
    assert made(rows)["configuration"].tolist() == ["a"]


def test_intervals_of_the_best_are_between_processes():
    (line,) = made(swept("a") + again("k", "a", [1.0, 1.02, 0.98], "best")).to_dict("records")
    half = 4.303 * np.std(np.log([1, 1.02, 0.98]), ddof=1) / math.sqrt(3)
    middle = -np.log([1, 1.02, 0.98]).mean()
    ends = [middle, middle - half, middle + half]
    assert np.log([line["ratio"], line["ratio_low"], line["ratio_high"]]) == pytest.approx(ends, abs=1e-3)
    assert line["within_high"] / line["within_low"] < 1.001 < line["ratio_high"] / line["ratio_low"]
    assert line["low_us"] < line["median_us"] < line["high_us"]
    assert line["tflops"] == pytest.approx(2 / line["median_us"])
    assert line["peak_fraction"] == pytest.approx(line["tflops"] / 2)


def test_energy_is_the_median_of_processes_with_its_range():
    rows = again("k", "a", NEAR, "best")
    for record, joules in zip(rows, (1.0, 3.0, 2.0), strict=True):
        record |= {"energy_j": joules, "power_w": joules / np.median(record["samples_us"]) * 1e6}
    columns = ["energy_j", "energy_low_j", "energy_high_j", "energy_processes", "tflop_per_j"]
    for without, expected in (
        (None, [2.0, 1.0, 3.0, 3, 2e-6 / 2]),
        (1, [1.5, 1.0, 2.0, 2, 2e-6 / 1.5]),
        (0, [2.0, math.nan, math.nan, 1, 2e-6 / 2]),
    ):
        if without is not None:
            rows[without]["energy_j"] = None
        line = made(swept("a") + rows)[columns].astype(float)
        assert line.to_numpy().tolist() == [pytest.approx(expected, nan_ok=True)]


@pytest.mark.parametrize(("apart", "ratio"), [(True, 4.0), (False, 4.4)])
def test_the_reference_of_tensor_cores_is_that_of_the_rounds_without_them(apart, ratio):
    rows = again("cublas", "-", [1.0] * 3, "best") + again("k", "a", [0.25] * 3, "best", tensor_cores=apart)
    for record in rows:
        mine = record["kernel"] == "k"
        record |= {"reference": "cublas", "key": f"{record['process']} {mine and apart}"}
        record |= {"samples_us": [0.25 if mine else 1.0] * 6, "reference_us": [1.1 if mine else 1.0] * 6}
    best = made(swept("a") + swept("-", kernel="cublas") + rows).set_index("kernel")
    assert best.loc["k", "ratio"] == pytest.approx(ratio)
    assert best.loc["k", "reference_us"] == pytest.approx(ratio / 4)


def test_what_finalists_had_no_room_for_is_counted():
    rows = swept("a", "b", "c", "d") + again("k", "a", NEAR, "best") + again("k", "b", NEAR)
    assert made(rows, within=0.02)["left_out"].tolist() == [2]
    for record in rows:  # one is near, one is not
        if not record["process"]:
            slower = {"c": 1.01, "d": 1.03}.get(record["configuration"], 1)
            record["samples_us"] = list(np.multiply(record["samples_us"], slower))
    assert made(rows, within=0.02)["left_out"].tolist() == [1]
    for record in rows:  # what lost the race was found as near by nobody
        if not record["process"]:
            record["stop"] = "race"
    assert made(rows, within=0.02)["left_out"].tolist() == [0]


def test_states_are_never_mixed():
    rows = swept("a", "b") + again("k", "a", NEAR, "best") + again("k", "b", np.multiply(NEAR, 1.01))
    cold = again("k", "a", np.multiply(NEAR, 3), "best", state="cold") + again("k", "b", np.multiply(NEAR, 2), state="cold")
    assert made(rows + cold)[["state", "configuration"]].to_numpy().tolist() == [["warm", "a"], ["cold", "b"]]


def test_what_fails_in_the_confirmation_is_correct_nowhere():
    elsewhere = [*swept("a", "b"), row(kernel="k", configuration="a", m=200, n=200, k=200)]
    rows = elsewhere + again("k", "a", NEAR[:1], "best") + again("k", "b", NEAR)
    failed = {"status": "incorrect", "reason": "off by much", "samples_us": None}
    rows.append(row(kernel="k", configuration="a", role="best", process=2, **failed))
    summary = summarise(rows, 2.0)
    assert summary["status"].tolist() == ["incorrect", "correct", "incorrect"]
    assert summary["reason"][0] == "in the confirmation, on 100: off by much"
    assert summary.loc[[0, 2], "tflops"].isna().all()
    (line,) = made(rows).to_dict("records")
    assert line["configuration"] == "b"
    (line,) = made([record for record in rows if record["configuration"] == "a"] + again("other", "x", NEAR)).to_dict("records")
    assert (line["kernel"], line["status"], line["processes"]) == ("k", "incorrect", 0)
    assert line["reason"] == "in the confirmation, on 100: off by much"
    assert math.isnan(line["tflops"])


def test_a_control_is_no_configuration_of_its_kernel():
    rows = swept("a") + swept("b", kernel="l") + again("k", "a", NEAR, "best") + again("l", "b", NEAR, "control")
    assert made(rows)["kernel"].tolist() == ["k"]


@pytest.mark.parametrize(
    ("given", "mark"),
    [
        ({}, ""),
        ({"samples_throttle_reasons": [0x4, *[0x1] * 9]}, "throttled"),
        ({"samples_us": [1.0] * 8 + [1.06] * 2}, "multimodal"),
        ({"samples_us": list(np.linspace(1, 1.01, 12)), "reference_us": [1.0] * 12}, "drifting"),
        ({"samples_us": [1.0] * 12, "reference_us": list(np.linspace(1, 1.01, 12))}, "drifting"),
        ({"other_processes": 1}, "disturbed"),
        ({"other_processes": 0.0, "reference": "blas_1"}, ""),
        ({"stop": "race"}, "raced"),
        ({"stop": "race", "samples_us": [1.0, 1.2] * 5}, "multimodal; raced"),
    ],
)
def test_marks(given, mark):
    summary = summarise([row(**given)], 1.0)
    assert summary["marks"].tolist() == [mark]
    if "race" not in str(given):
        marks = "; ".join(filter(None, [mark, "few"]))  # the sweep is one process
        assert tables.best(summary, Finalists())["marks"].tolist() == [marks]


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
    of_kernel = swept("a") + again("k", "a", NEAR, "best")
    reference = swept("-", kernel="cublas") + again("cublas", "-", levels, "best")
    elsewhere = [record | {"m": 200} for record in swept("a") + again("k", "a", NEAR, "best")]
    table = made(of_kernel + reference + elsewhere).set_index(["kernel", "problem"])["marks"].str.contains("unsteady")
    assert table.to_dict() == {("k", "100"): unsteady, ("cublas", "100"): unsteady, ("k", "200x100x100"): False}
    swept_only = tables.best(summarise([*swept("a"), *swept("-", kernel="cublas")], 2.0), Finalists())
    assert set(swept_only["marks"]) == {"few; unsteady"}  # the times there are twice the reference's


def test_processes_that_differ_are_two_modes_and_no_drift():
    (line,) = made(swept("a") + again("k", "a", [1.0, 1.01, 1.2], "best")).to_dict("records")
    assert "multimodal" in line["marks"]
    rows = again("k", "a", NEAR, "best")
    for record in rows:  # the shared noise would hide the modes that are told of here
        record["samples_us"] = record["reference_us"] = [1.0] * 6
    assert made(swept("a") + rows)["marks"].tolist() == [""]
    for record in rows:
        record["samples_us"] = list(np.linspace(1, 1.01, 6))
    assert made(swept("a") + rows)["marks"].tolist() == ["drifting"]
    assert made(swept("a") + rows[:2])["marks"].tolist() == ["drifting; few"]


def compared(rows, sha256=None):
    """The table of pairs, by (pair, kernel)."""
    summary, confirmed = summarise(rows, 2.0), Finalists(labelled(rows), 0.0, 2.0)
    resources = pd.DataFrame(sha256 or [], columns=["kernel", "element_type", "configuration", "sha256"])
    return {
        (line["pair"], line["kernel"]): line
        for line in tables.pairs(summary, tables.best(summary, confirmed), resources, confirmed).to_dict("records")
    }


def test_pairs_are_of_the_rounds_in_which_both_were_timed_and_else_of_ratios_to_the_reference():
    rows = [record for kernel in ("01_a", "02_b") for record in swept("-", kernel=kernel)]
    for record in again("01_a", "-", NEAR, "best") + again("02_b", "-", np.divide(NEAR, 2), "best", rounds=3):  # which left early
        rows.append(record | {"key": "together"})
    assert compared(rows)["gain", "02_b"]["ratio"] == pytest.approx(2, rel=1e-3)
    for record in (record for record in rows if record["process"] and record["kernel"] == "02_b"):
        # of other rounds, at another clock
        times = np.random.default_rng(record["process"]).permutation(record["reference_us"]) * 3
        record |= {"key": "apart", "reference_us": list(times), "samples_us": list(times / 2)}
    assert compared(rows)["gain", "02_b"]["ratio"] == pytest.approx(2, rel=1e-3)


def test_what_is_timed_apart_from_the_reference_uses_the_tensor_cores():
    rows = again("cublas", "-", NEAR, "best", key="beside") + again("01_a", "-", NEAR, "best", key="beside")
    rows += again("21_b", "-", NEAR, "best", key="apart") + again("cublaslt_best", "-", NEAR, "best", key="apart")
    assert Finalists(labelled(rows)).tensor_cores == {("21_b", "float32", "-")}
    assert dict(made(rows)[["kernel", "tensor_cores"]].to_numpy()) == {
        "01_a": False,
        "21_b": True,
        "cublas": False,
        "cublaslt_best": False,
    }


def test_pairs():
    names = ("01_a", "02_b", "03_c", "64_ptx", "cublas", "cublas_tf32")
    rows = [record for kernel in names for record in swept("-", kernel=kernel)]
    for kernel, levels in (("01_a", np.multiply(NEAR, 2)), ("02_b", NEAR), ("03_c", [1.001, 0.999, 1.0])):
        rows += again(kernel, "-", levels, "best")
    rows += again("64_ptx", "-", NEAR, "best")  # an example in another language is no rung
    rows += again("cublas_tf32", "-", NEAR, "best")  # no binary, like the other call, and no twin of it
    rows += again("cublas", "-", [1.0, 1.00001, 0.99999], "best") + again("02_b", "twin", NEAR, "control")
    code = (("01_a", "-", "s1"), ("02_b", "twin", "s1"), ("02_b", "-", "s1"), ("cublas", "-", ""))
    pairs = compared(rows, [(kernel, "float32", configuration, sha256) for kernel, configuration, sha256 in code])
    assert set(pairs) == {("gain", "02_b"), ("gain", "03_c"), ("null", "cublas"), ("twins", "01_a")}
    gain = pairs["gain", "02_b"]
    assert (gain["other"], gain["verdict"], gain["problem"], gain["processes"]) == ("01_a", "faster", "100", 3)
    assert gain["ratio"] == pytest.approx(2, rel=1e-3)
    assert gain["low"] < gain["ratio"] < gain["high"] < 2.1
    assert pairs["gain", "03_c"]["verdict"] == "not distinguishable"
    assert pairs["null", "cublas"]["verdict"] == "not distinguishable"
    assert pairs["twins", "01_a"]["verdict"] == "slower"  # twice the time: no twin in truth


def test_a_slow_one_is_compared_in_the_rounds_it_took_part_in():
    slow = again("01_a", "-", np.multiply(NEAR, 50), "best", rounds=3)
    for record in slow:
        record["samples_us"][0] *= 9  # the median of three rounds does not mind
    pairs = compared(swept("-", kernel="01_a") + swept("-", kernel="02_b") + slow + again("02_b", "-", NEAR, "best", rounds=8))
    assert pairs["gain", "02_b"]["ratio"] == pytest.approx(50, rel=1e-3)
    assert pairs["gain", "02_b"]["verdict"] == "faster"


def test_without_a_confirmation_gains_are_of_ratios_and_no_verdict():
    """The rounds of the second kernel were twice as slow, reference and all: its rate is half, and it is as fast."""
    rows = [row(kernel="01_a"), row(kernel="02_b", samples_us=[4.0] * 10, reference_us=[2.0] * 10)]
    (line,) = compared(rows).values()
    assert (line["pair"], line["ratio"], line["verdict"]) == ("gain", 1.0, "not confirmed")
    assert math.isnan(line["low"])
