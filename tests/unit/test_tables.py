"""Tables of a sweep: rates, marks and the fastest; and which files make up a dataset."""

import hashlib
import shutil

import faults
import pandas as pd
import pytest
import synthetic
from ladder.analysis import dataset, tables
from ladder.analysis.dataset import Dataset
from ladder.analysis.finalists import Finalists
from ladder.core.errors import InputError
from ladder.core.files import digest
from ladder.storage import csv_files, samples
from rows import made, row, summarise


@pytest.mark.parametrize(("asked", "mark"), [(None, ""), (0, "short gauntlet"), (19, "short gauntlet"), (20, "")])
def test_a_kernel_that_was_asked_little_is_marked(asked, mark):
    swept = row(gauntlet_problems=asked, gauntlet_changed=None if asked is None else 3)
    assert summarise([swept], 1.0)["marks"].tolist() == [mark]
    (best,) = made([swept, *(row(process=n, role="best", key=f"{n}", stop="target") for n in (1, 2, 3))]).to_dict("records")
    assert (best["marks"], best["processes"]) == (mark, 3)
    gauntlet = None if pd.isna(best["gauntlet_problems"]) else (best["gauntlet_problems"], best["gauntlet_changed"])
    assert gauntlet == (None if asked is None else (asked, 3))


@pytest.mark.parametrize(("column", "mark"), [("sums_16_bit", "16-bit sums"), ("nan_at_alpha_0", "NaN at alpha 0")])
def test_what_the_verification_finds_beside_its_verdict_is_marked(column, mark):
    given = {"kernel": "cublas", "reference_us": [2.0] * 10}
    confirmed = (row(**given, process=n, role="best", key=f"{n}", stop="target") for n in (1, 2, 3))
    rows = [row(**given, **{column: True}), *confirmed]
    assert summarise(rows, 2.0)["marks"].tolist() == made(rows)["marks"].tolist() == [mark]


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
    a, b = sorted(tmp_path.glob("*.parquet"))
    of_a = {"fingerprint": {"driver": "580", "device": "H"}}
    for paths, environment, message in (
        ([a, b], of_a, r'b\.float32\.parquet: measured in another environment: driver was "590"; expected "580"'),
        ([a], of_a | {"name": "L"}, r"environment\.json: name: got L; expected H, as in its fingerprint"),
        (
            [a, b],
            {"fingerprint": {"driver": "590", "device": "L"}},
            r'a\.float32\.parquet: .*: device was "H"; expected "L", driver was "580"; expected "590", as in environment.json',
        ),
    ):
        with pytest.raises(InputError, match=message):
            dataset.load(paths, environment)
    probed, again = ({**of_a, "peaks": {"fp32_tflops": peak}} for peak in (60.0, 61.0))
    samples.write(a, [row(kernel="a")], {**of_a, "described": digest(probed)})
    assert dataset.load([a], probed)
    with pytest.raises(
        InputError, match=r"a\.float32\.parquet: described: got \w+; expected \w+, the digest of environment.json"
    ):
        dataset.load([a], again)


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
    given = {"energy_j": 1e-4, "sm_clock_mhz": 1000.0, "samples_throttle_reasons": reasons}
    rows = [row(samples_us=[2.0] * 4, reference_us=[1.0] * 4, **given)]
    (line,) = summarise(rows, 2.0, per_clock=2000.0).to_dict("records")
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
    records, _ = dataset.load(paths, EMPTY)
    assert [record["kernel"] for record in records] == ["a", "b"]
    _, sessions = dataset.load([*paths, confirm(tmp_path, paths)], EMPTY)
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
    path, other = write(tmp_path, "a", "b")
    path.write_bytes(other.read_bytes())
    with pytest.raises(InputError, match=rf"a\.float32\.parquet: {faults.MACHINE['misnamed'].reason}\. Where it"):
        dataset.load([path], EMPTY)
    samples.write(path, [row(kernel="b")], {})  # of before files said what they are
    with pytest.raises(InputError, match=r"has the measurements of b\.float32; expected those of a\.float32\. .*git checkout"):
        dataset.load([path], EMPTY)
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


@pytest.mark.parametrize("text", [b"", b"what is this\n", b"\xff\xfe\0", b'kernel\n"'])
def test_a_table_that_is_none_is_told(tmp_path, text):
    (tmp_path / "best.csv").write_bytes(text)
    message = r"best\.csv: (not a table|got the columns .*; expected kernel).*\. Where it is committed"
    with pytest.raises(InputError, match=message):
        csv_files.read_csv(tmp_path / "best.csv")
