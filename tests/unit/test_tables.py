import hashlib
import math
import shutil

import faults
import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.analysis import dataset, tables
from ladder.analysis.dataset import Dataset
from ladder.analysis.finalists import Finalists
from ladder.analysis.measurements import labelled
from ladder.core.errors import InputError
from ladder.storage import csv_files, samples


def row(**given):
    base = dict.fromkeys(samples.SCHEMA.names) | {"alpha": 1.0, "beta": 0.0, "padding": 0}
    base |= {"device": "d", "kernel": "k", "configuration": "-", "element_type": "float32", "m": 100, "n": 100, "k": 100, "state": "warm",
             "status": "correct", "reference": "cublas", "samples_us": [2.0] * 10, "reference_us": [1.0] * 10}  # fmt: skip
    return base | given


def summarise(rows, peak_tflops, per_clock=None):
    records = labelled(rows)
    return tables.summarise(records, Finalists(records, 0.0, peak_tflops, per_clock))


@pytest.mark.parametrize(("asked", "mark"), [(None, ""), (0, "short gauntlet"), (19, "short gauntlet"), (20, "")])
def test_a_kernel_that_was_asked_little_is_marked(asked, mark):
    swept = row(gauntlet_problems=asked, gauntlet_changed=None if asked is None else 3)
    (line,) = summarise([swept], 1.0).to_dict("records")
    assert line["marks"] == mark
    records = labelled([swept, *(row(process=process, role="best", key=f"{process}", stop="target") for process in (1, 2, 3))])
    finalists = Finalists(records)
    (best,) = tables.best(tables.summarise(records, finalists), finalists).to_dict("records")
    assert (best["marks"], best["processes"]) == (mark, 3)
    found = None if pd.isna(best["gauntlet_problems"]) else (best["gauntlet_problems"], best["gauntlet_changed"])
    assert found == (None if asked is None else (asked, 3))


def test_a_baseline_that_adds_parts_of_k_in_16_bits_is_marked():
    given = {"kernel": "cublas", "reference_us": [2.0] * 10}
    swept = row(**given, sums_16_bit=True)
    records = labelled([swept, *(row(**given, process=n, role="best", key=f"{n}", stop="target") for n in (1, 2, 3))])
    finalists = Finalists(records)
    summary = tables.summarise(records, finalists)
    assert [line["marks"] for line in summary.to_dict("records")] == ["16-bit sums"]
    assert [line["marks"] for line in tables.best(summary, finalists).to_dict("records")] == ["16-bit sums"]


def test_rates_and_ratios():
    (line,) = summarise([row()], peak_tflops=2.0).to_dict("records")
    assert line["tflops"] == pytest.approx(1.0)  # 2e6 operations in 2 microseconds
    assert line["reference_tflops"] == pytest.approx(2.0)
    assert (line["ratio"], line["ratio_low"], line["ratio_high"]) == (0.5, 0.5, 0.5)
    assert line["peak_fraction"] == pytest.approx(0.5)
    assert (line["problem"], line["samples"]) == ("100", 10)


@pytest.mark.parametrize("status", ["incorrect", "timeout", "launch_error", "compile_error", "not_supported", "skipped"])
def test_what_is_not_correct_has_no_speed(status):
    (line,) = summarise([row(status=status)], 1.0).to_dict("records")
    assert all(line[name] != line[name] for name in ("tflops", "ratio", "median_us", "peak_fraction"))  # NaN


def test_the_best_is_the_fastest_correct_one_and_ties_are_named():
    rows = [
        row(configuration="slow", samples_us=[3.0] * 10),
        row(configuration="fast", samples_us=[1.0, 1.1] * 5),
        row(configuration="tied", samples_us=[1.06] * 10),
        row(configuration="wrong", samples_us=[0.1] * 10, status="incorrect"),
        row(kernel="other", status="timeout"),
    ]
    (line,) = tables.best(summarise(rows, 1.0), Finalists()).to_dict("records")
    assert (line["kernel"], line["configuration"], line["configurations"], line["tied_with"]) == ("k", "fast", 4, "tied")


def test_problems_of_one_size_with_other_operands_are_apart_and_named_by_what_differs():
    rows = [row(beta=2.0), row(beta=2.0, padding=3, samples_us=[3.0] * 10), row(beta=2.0, padding=3, samples_us=[4.0] * 10)]
    summary = summarise(rows, 1.0)
    assert summary["problem"].tolist() == ["100", "100 padding=3", "100 padding=3"]  # all have that beta
    best = tables.best(summary, Finalists())
    assert best[["problem", "median_us"]].to_numpy().tolist() == [["100", 2.0], ["100 padding=3", 3.0]]


def test_two_environments_are_never_one_dataset(tmp_path):
    for name, driver in (("a", "580"), ("b", "590")):
        path = tmp_path / f"{name}.float32.parquet"
        samples.write(path, [row(kernel=name)], {"fingerprint": {"driver": driver, "device": "H"}})
    with pytest.raises(
        InputError, match=r'b\.float32\.parquet: measured in another environment: driver was "590"; expected "580"'
    ):
        dataset.load(sorted(tmp_path.glob("*.parquet")), {"fingerprint": {"driver": "580", "device": "H"}})
    with pytest.raises(InputError, match=r"environment\.json: name: got L; expected H, as in its fingerprint"):
        dataset.load([tmp_path / "a.float32.parquet"], {"name": "L", "fingerprint": {"driver": "580", "device": "H"}})
    with pytest.raises(
        InputError,
        match=r'a\.float32\.parquet: .*: device was "H"; expected "L", driver was "580"; expected "590", as in environment.json',
    ):
        dataset.load(sorted(tmp_path.glob("*.parquet")), {"fingerprint": {"driver": "590", "device": "L"}})


def test_what_was_timed_beside_another_process_is_marked():
    (quiet, disturbed) = summarise([row(other_processes=n, reason="") for n in (0, 2)], 1.0).to_dict("records")
    assert quiet["reason"] == ""
    assert disturbed["reason"] == "timed while 2 other process(es) computed on the device"
    assert disturbed["tflops"] == quiet["tflops"]
    (of_cpu,) = summarise([row(other_processes=1.68, reference="blas_1", reason="")], 1.0).to_dict("records")
    assert (of_cpu["reason"], of_cpu["marks"]) == ("timed while other processes used 1.7 cores", "disturbed")


def test_what_lost_the_race_is_neither_best_nor_tied():
    rows = [
        row(configuration="finished", samples_us=[2.0] * 10),
        row(configuration="raced", samples_us=[1.0] * 5, reference_us=[0.4] * 5, stop="race"),
    ]
    summary = summarise(rows, 1.0)
    assert summary["samples"].tolist() == [10, 5]
    (line,) = tables.best(summary, Finalists()).to_dict("records")
    assert (line["configuration"], line["configurations"], line["tied_with"]) == ("finished", 2, "")


def test_energy_clock_and_throttling():
    reasons = [0, 0x1, 0x4, 0x40 | 0x1]  # none, idle, power cap, heat
    given = row(
        samples_us=[2.0] * 4, reference_us=[1.0] * 4, energy_j=1e-4, sm_clock_mhz=1000.0, samples_throttle_reasons=reasons
    )
    (line,) = summarise([given], 2.0, per_clock=2000.0).to_dict("records")
    assert line["tflop_per_j"] == pytest.approx(0.02)  # 2e6 operations for 1e-4 J
    assert line["clock_fraction"] == pytest.approx(0.5)  # 1 TFLOP/s of 2000 a clock at 1 GHz
    assert line["throttled_share"] == pytest.approx(0.5)
    assert (line["samples"], line["stop"]) == (4, None)
    (line,) = summarise([row()], 2.0).to_dict("records")
    assert all(line[name] is None or line[name] != line[name] for name in ("tflop_per_j", "clock_fraction", "throttled_share"))


def write(folder, *names, session=None, **given):
    """Sample files of kernels of the given names, each with one row; returns their paths."""
    paths = [folder / f"{name}.float32.parquet" for name in names]
    for path, name in zip(paths, names, strict=True):
        samples.write(path, [row(kernel=name, **given)], {"code": "v1", "job": path.stem} | (session or {}))
    return paths


def confirm(folder, paths, **session):
    """The file of a confirmation of those files."""
    jobs = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    path = folder / "confirmed.parquet"
    samples.write(path, [row(process=1)], {"job": "confirmed", "jobs": jobs, "code": "other"} | session)
    return path


EMPTY = {"fingerprint": {}}


def test_a_dataset_that_is_whole_is_read(tmp_path):
    paths = write(tmp_path, "a", "b")
    (tmp_path / "baselines.float32.parquet").write_bytes(
        write(tmp_path, "x", session={"job": "baselines.float32"})[0].read_bytes()
    )
    found, sessions = dataset.load(paths, EMPTY)
    assert [record["kernel"] for record in found] == ["a", "b"]
    found, sessions = dataset.load([*paths, confirm(tmp_path, paths)], EMPTY)
    assert [session["job"] for session in sessions] == ["a.float32", "b.float32", "confirmed"]


def test_a_confirmation_by_other_code_is_refused(tmp_path):
    paths = write(tmp_path, "a")
    assert dataset.load([*paths, confirm(tmp_path, paths, swept="v1")], EMPTY)
    with pytest.raises(InputError, match=r"confirmed\.parquet: measured by version v2 of the measuring code; expected v1"):
        dataset.load([*paths, confirm(tmp_path, paths, swept="v2")], EMPTY)


def test_a_repeat_without_its_sweep_has_the_same_best_and_pairs(tmp_path):
    kernels = ("07_double_buffer", "08_padded_shared", "10_block_tile_128", "16_thin_edge", "cublas")
    folder = synthetic.write(tmp_path / "d", problems=synthetic.SMALL, kernels=kernels, processes=3)
    whole = Dataset.open(folder)
    shutil.rmtree(folder / "samples")
    repeat = Dataset.open(folder)
    assert (whole.has_sweep, repeat.has_sweep) == (True, False)
    pd.testing.assert_frame_equal(repeat.pairs, whole.pairs)
    of_sweep = ["configurations", "left_out", "frobenius_error", "component_error", "race"]
    pd.testing.assert_frame_equal(repeat.best.drop(columns=of_sweep), whole.best.drop(columns=of_sweep))
    assert set(repeat.pairs["pair"]) == {"gain", "null", "twins"}


def test_a_file_under_another_name_is_refused(tmp_path):
    """As one kernel's samples in place of another's, or of another element type, or of another shard."""
    one, other = write(tmp_path, "a", "b")
    one.write_bytes(other.read_bytes())
    with pytest.raises(InputError, match=rf"a\.float32\.parquet: {faults.MACHINE['misnamed'].reason}\. Where it"):
        dataset.load([one], EMPTY)
    samples.write(one, [row(kernel="b")], {})  # of before files said what they are
    with pytest.raises(InputError, match=r"has the measurements of b\.float32; expected those of a\.float32\. .*git checkout"):
        dataset.load([one], EMPTY)
    shard = tmp_path / "b.float32.2of3.parquet"
    samples.write(shard, [row(kernel="b")], {"job": "b.float32.1of3"})
    with pytest.raises(InputError, match=r"has the measurements of b\.float32\.1of3; expected those of b\.float32\.2of3"):
        dataset.load([shard], EMPTY)
    calls = tmp_path / "baselines.float32.parquet"
    samples.write(calls, [row(kernel="cublas")], {})
    assert len(dataset.load([calls], EMPTY)[0]) == 1


def test_two_versions_of_the_measuring_code_are_never_one_dataset(tmp_path):
    paths = [*write(tmp_path, "a", "b"), *write(tmp_path, "c", session={"code": "v2"})]
    with pytest.raises(InputError, match=rf"c\.float32\.parquet: {faults.MACHINE['mixed'].reason}, as of a\.float32"):
        dataset.load(paths, EMPTY)


def test_samples_that_are_not_those_confirmed_are_refused(tmp_path):
    paths = write(tmp_path, "a", "b")
    whole = confirm(tmp_path, paths)
    with pytest.raises(InputError, match=rf"confirmed\.parquet: {faults.MACHINE['missing'].reason}"):
        dataset.load([paths[0], whole], EMPTY)
    with pytest.raises(InputError, match=r"in samples/: c\.float32 is not among them"):
        dataset.load([*paths, *write(tmp_path, "c"), whole], EMPTY)
    write(tmp_path, "b", samples_us=[1.0] * 10)  # with a checksum of its own that is right
    with pytest.raises(InputError, match=r"in samples/: b\.float32 is another\. Where it is committed, restore"):
        dataset.load([*paths, whole], EMPTY)


def again(kernel, configuration, levels, role="finalist", rounds=6, **given):
    """Rows of the confirmation: a candidate's times in each process, whose rounds share what the reference has; with noise of its own."""
    rows = []
    for process, level in enumerate(levels, 1):
        random = np.random.default_rng([process, *f"{kernel} {configuration}".encode()])
        shared = np.random.default_rng(process).normal(0, 0.05, rounds)
        times = np.exp(shared + random.normal(0, 1e-4, rounds))
        rows.append(
            row(kernel=kernel, configuration=configuration, role=role, process=process, samples_us=list(level * times),
                reference_us=list(np.exp(shared)), stop="max_samples", **given)
        )  # fmt: skip
    return rows


def swept(*names, kernel="k"):
    """The sweep's rows of a kernel's configurations, all correct."""
    return [row(kernel=kernel, configuration=name, frobenius_error=1e-7, stop="target") for name in names]


def made(rows, within=0.0):
    """The table of the best."""
    return tables.best(summarise(rows, 2.0), Finalists(labelled(rows), within, 2.0))


NEAR = [1.0, 1.001, 0.999]


def test_the_best_is_the_sweeps_unless_pairs_say_otherwise():
    """`b` is faster, but not distinguishable from `a`; `c` is always slower by 1 %, `d` faster, although the rounds differ by 5 %."""
    rows = (
        swept("a", "b", "c", "d")
        + again("k", "a", NEAR, "best")
        + again("k", "b", [0.9985, 1.0005, 0.9985])
        + again("k", "c", np.multiply(NEAR, 1.01))
    )
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
    assert np.log([line["ratio"], line["ratio_low"], line["ratio_high"]]) == pytest.approx(
        [middle, middle - half, middle + half], abs=1e-3
    )
    assert line["within_high"] / line["within_low"] < 1.001 < line["ratio_high"] / line["ratio_low"]
    assert line["low_us"] < line["median_us"] < line["high_us"]
    assert line["tflops"] == pytest.approx(2 / line["median_us"])
    assert line["peak_fraction"] == pytest.approx(line["tflops"] / 2)


def test_energy_is_the_median_of_processes_with_its_range():
    rows = again("k", "a", NEAR, "best")
    for record, joules in zip(rows, (1.0, 3.0, 2.0), strict=True):
        record |= {"energy_j": joules, "power_w": joules / np.median(record["samples_us"]) * 1e6}
    (line,) = made(swept("a") + rows).to_dict("records")
    assert (line["energy_j"], line["energy_low_j"], line["energy_high_j"], line["energy_processes"]) == (2.0, 1.0, 3.0, 3)
    assert line["tflop_per_j"] == pytest.approx(2e-6 / 2)
    rows[1]["energy_j"] = None
    (line,) = made(swept("a") + rows).to_dict("records")
    assert (line["energy_j"], line["energy_low_j"], line["energy_high_j"], line["energy_processes"]) == (1.5, 1.0, 2.0, 2)
    rows[0]["energy_j"] = None
    (line,) = made(swept("a") + rows).to_dict("records")
    assert (line["energy_j"], line["energy_processes"]) == (2.0, 1)
    assert math.isnan(line["energy_low_j"] or math.nan)


@pytest.mark.parametrize(("apart", "ratio"), [(True, 4.0), (False, 4.4)])
def test_the_reference_of_tensor_cores_is_that_of_the_rounds_without_them(apart, ratio):
    rows = again("cublas", "-", [1.0] * 3, "best") + again("k", "a", [0.25] * 3, "best", tensor_cores=apart)
    for record in rows:
        mine = record["kernel"] == "k"
        record |= {
            "reference": "cublas",
            "key": f"{record['process']} {mine and apart}",
            "samples_us": [0.25 if mine else 1.0] * 6,
        }
        record["reference_us"] = [1.1 if mine else 1.0] * 6
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
    lines = made(rows + cold)
    assert lines[["state", "configuration"]].to_numpy().tolist() == [["warm", "a"], ["cold", "b"]]


def test_what_fails_in_the_confirmation_is_correct_nowhere():
    elsewhere = [*swept("a", "b"), row(kernel="k", configuration="a", m=200, n=200, k=200)]
    rows = elsewhere + again("k", "a", NEAR[:1], "best") + again("k", "b", NEAR)
    rows.append(
        row(kernel="k", configuration="a", role="best", process=2, status="incorrect", reason="off by much", samples_us=None)
    )
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
    (line,) = summarise([row(**given)], 1.0).to_dict("records")
    assert line["marks"] == mark
    if "race" not in str(given):
        (line,) = tables.best(summarise([row(**given)], 1.0), Finalists()).to_dict("records")
        assert line["marks"] == "; ".join(filter(None, [mark, "few"]))  # the sweep is one process


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
        times = (
            np.random.default_rng(record["process"]).permutation(record["reference_us"]) * 3
        )  # of other rounds, at another clock
        record |= {"key": "apart", "reference_us": list(times), "samples_us": list(times / 2)}
    assert compared(rows)["gain", "02_b"]["ratio"] == pytest.approx(2, rel=1e-3)


def test_what_is_timed_apart_from_the_reference_uses_the_tensor_cores():
    rows = again("cublas", "-", NEAR, "best", key="beside") + again("01_a", "-", NEAR, "best", key="beside")
    rows += again("21_b", "-", NEAR, "best", key="apart") + again("cublaslt_best", "-", NEAR, "best", key="apart")
    assert Finalists(labelled(rows)).tensor_cores == {("21_b", "float32", "-")}
    assert dict(made(rows)[["kernel", "tensor_cores"]].to_numpy()) == {
        "01_a": False, "21_b": True, "cublas": False, "cublaslt_best": False,
    }  # fmt: skip


def test_pairs():
    rows = [record for kernel in ("01_a", "02_b", "03_c", "64_ptx", "cublas", "cublas_tf32") for record in swept("-", kernel=kernel)]
    for kernel, factor in (("01_a", 2.0), ("02_b", 1.0), ("03_c", 1.0)):
        rows += again(kernel, "-", np.multiply(NEAR, factor) if kernel != "03_c" else [1.001, 0.999, 1.0], "best")
    rows += again("64_ptx", "-", NEAR, "best")  # an example in another language is no rung
    rows += again("cublas_tf32", "-", NEAR, "best")  # no binary, like the other call, and no twin of it
    rows += again("cublas", "-", [1.0, 1.00001, 0.99999], "best") + again("02_b", "twin", NEAR, "control")
    found = compared(
        rows,
        [
            ("01_a", "float32", "-", "s1"),
            ("02_b", "float32", "twin", "s1"),
            ("02_b", "float32", "-", "s1"),
            ("cublas", "float32", "-", ""),
        ],
    )
    assert set(found) == {("gain", "02_b"), ("gain", "03_c"), ("null", "cublas"), ("twins", "01_a")}
    gain = found["gain", "02_b"]
    assert (gain["other"], gain["verdict"], gain["problem"], gain["processes"]) == ("01_a", "faster", "100", 3)
    assert gain["ratio"] == pytest.approx(2, rel=1e-3)
    assert gain["low"] < gain["ratio"] < gain["high"] < 2.1
    assert found["gain", "03_c"]["verdict"] == "not distinguishable"
    assert found["null", "cublas"]["verdict"] == "not distinguishable"
    assert found["twins", "01_a"]["verdict"] == "slower"  # twice the time: no twin in truth


def test_a_slow_one_is_compared_in_the_rounds_it_took_part_in():
    slow = again("01_a", "-", np.multiply(NEAR, 50), "best", rounds=3)
    for record in slow:
        record["samples_us"][0] *= 9  # the median of three rounds does not mind
    found = compared(swept("-", kernel="01_a") + swept("-", kernel="02_b") + slow + again("02_b", "-", NEAR, "best", rounds=8))
    assert found["gain", "02_b"]["ratio"] == pytest.approx(50, rel=1e-3)
    assert found["gain", "02_b"]["verdict"] == "faster"


def test_without_a_confirmation_gains_are_of_ratios_and_no_verdict():
    """The rounds of the second kernel were twice as slow, reference and all: its rate is half, and it is as fast."""
    rows = [row(kernel="01_a"), row(kernel="02_b", samples_us=[4.0] * 10, reference_us=[2.0] * 10)]
    (line,) = compared(rows).values()
    assert (line["pair"], line["ratio"], line["verdict"]) == ("gain", 1.0, "not confirmed")
    assert math.isnan(line["low"])


@pytest.mark.parametrize("text", [b"", b"what is this\n", b"\xff\xfe\0", b'kernel\n"'])
def test_a_table_that_is_none_is_told(tmp_path, text):
    (tmp_path / "best.csv").write_bytes(text)
    with pytest.raises(
        InputError, match=r"best\.csv: (not a table|got the columns .*; expected kernel).*\. Where it is committed"
    ):
        csv_files.read_csv(tmp_path / "best.csv")
