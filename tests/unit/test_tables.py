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


@pytest.mark.parametrize(
    ("given", "mark"),
    [
        ({}, ""),
        ({"gauntlet_problems": 0, "gauntlet_changed": 3}, "short gauntlet"),
        ({"gauntlet_problems": 19, "gauntlet_changed": 3}, "short gauntlet"),
        ({"gauntlet_problems": 20, "gauntlet_changed": 3}, ""),
        ({"sums_16_bit": True}, "16-bit sums"),
        ({"nan_at_alpha_0": True}, "NaN at alpha 0"),
    ],
)
def test_what_the_verification_finds_beside_its_verdict_is_marked(given, mark):
    swept = row(**given)
    confirmed = [row(process=n, role="best", key=f"{n}", stop="target") for n in (1, 2, 3)]
    assert summarise([swept], 1.0)["marks"].tolist() == [mark]
    (best,) = made([swept, *confirmed]).to_dict("records")
    assert (best["marks"], best["processes"]) == (mark, 3)
    for name in ("gauntlet_problems", "gauntlet_changed"):
        assert best[name] == given[name] if name in given else pd.isna(best[name])


def summarised(**given):
    """The row of the summary of one sampled row."""
    (line,) = summarise([row(**given)], 2.0, per_clock=2000.0).to_dict("records")
    return line


def test_rates_and_ratios():
    line = summarised()
    assert line["tflops"] == pytest.approx(1.0)  # 2e6 operations in 2 microseconds
    assert line["reference_tflops"] == pytest.approx(2.0)
    assert line["ratio"] == line["ratio_low"] == line["ratio_high"] == 0.5
    assert line["peak_fraction"] == pytest.approx(0.5)
    assert (line["problem"], line["samples"]) == ("100", 10)
    assert all(pd.isna(line[name]) for name in ("tflop_per_j", "clock_fraction", "throttled_share"))


@pytest.mark.parametrize(
    "status", ["incorrect", "timeout", "launch_error", "compile_error", "not_supported", "skipped"]
)
def test_what_is_not_correct_has_no_speed(status):
    line = summarised(status=status)
    assert all(pd.isna(line[name]) for name in ("tflops", "ratio", "median_us", "peak_fraction"))


@pytest.mark.parametrize(
    ("others", "tied"),
    [
        ([row(configuration="slow", samples_us=[3.0] * 10)], ""),
        ([row(configuration="tied", samples_us=[1.06] * 10)], "tied"),
        ([row(configuration="wrong", samples_us=[0.1] * 10, status="incorrect")], ""),
        (
            [row(configuration="raced", samples_us=[0.5] * 5, reference_us=[0.4] * 5, stop="race")],
            "",
        ),
    ],
)
def test_the_best_is_the_fastest_correct_one_and_ties_are_named(others, tied):
    fast = row(configuration="fast", samples_us=[1.0, 1.1] * 5)
    rows = [*others, fast, row(kernel="other", status="timeout")]
    (line,) = tables.best(summarise(rows, 1.0), Finalists()).to_dict("records")
    assert (line["kernel"], line["configuration"], line["configurations"]) == ("k", "fast", 2)
    assert line["tied_with"] == tied


def test_problems_of_one_size_with_other_operands_are_apart_and_named_by_what_differs():
    rows = [row(beta=2.0), *(row(beta=2.0, padding=3, samples_us=[us] * 10) for us in (3.0, 4.0))]
    summary = summarise(rows, 1.0)
    # all have that beta
    assert summary["problem"].tolist() == ["100", "100 padding=3", "100 padding=3"]
    best = tables.best(summary, Finalists())
    assert dict(best[["problem", "median_us"]].to_numpy()) == {"100": 2.0, "100 padding=3": 3.0}


OF_A = {"fingerprint": {"driver": "580", "device": "H"}}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            OF_A,
            r'b\.float32\.parquet: measured in another environment: driver was "590"; expected '
            r'"580"',
        ),
        (
            OF_A | {"name": "L"},
            r"environment\.json: name: got L; expected H, as in its fingerprint",
        ),
        (
            {"fingerprint": {"driver": "590", "device": "L"}},
            r'a\.float32\.parquet: .*: device was "H"; expected "L", '
            r'driver was "580"; expected "590", as in environment.json',
        ),
    ],
)
def test_two_environments_are_never_one_dataset(tmp_path, environment, message):
    paths = [
        *write(tmp_path, "a", session={"fingerprint": {"driver": "580", "device": "H"}}),
        *write(tmp_path, "b", session={"fingerprint": {"driver": "590", "device": "H"}}),
    ]
    with pytest.raises(InputError, match=message):
        dataset.load(paths, environment)


def test_samples_are_of_one_description_of_the_environment(tmp_path):
    probed, again = (OF_A | {"peaks": {"fp32_tflops": peak}} for peak in (60.0, 61.0))
    paths = write(tmp_path, "a", session={**OF_A, "described": digest(probed)})
    assert dataset.load(paths, probed)
    message = (
        r"a\.float32\.parquet: described: got \w+; expected \w+, the digest of environment.json"
    )
    with pytest.raises(InputError, match=message):
        dataset.load(paths, again)


@pytest.mark.parametrize(
    ("given", "mark", "reason"),
    [
        ({"other_processes": 0}, "", ""),
        (
            {"other_processes": 2},
            "disturbed",
            "timed while 2 other process(es) computed on the device",
        ),
        (
            {"other_processes": 1.68, "reference": "blas_1"},
            "disturbed",
            "timed while other processes used 1.7 cores",
        ),
    ],
)
def test_what_was_timed_beside_another_process_is_marked(given, mark, reason):
    line = summarised(reason="", **given)
    assert (line["marks"], line["reason"]) == (mark, reason)
    assert line["tflops"] == pytest.approx(1.0)


def test_energy_clock_and_throttling():
    reasons = [0, 0x1, 0x4, 0x40 | 0x1]  # none, idle, power cap, heat
    times = {"samples_us": [2.0] * 4, "reference_us": [1.0] * 4}
    line = summarised(energy_j=1e-4, sm_clock_mhz=1000.0, samples_throttle_reasons=reasons, **times)
    assert line["tflop_per_j"] == pytest.approx(0.02)  # 2e6 operations for 1e-4 J
    assert line["clock_fraction"] == pytest.approx(0.5)  # 1 TFLOP/s of 2000 a clock at 1 GHz
    assert line["throttled_share"] == pytest.approx(0.5)


def write(folder, *names, session=None, **given):
    """Sample files of kernels of the given names, each with one row; returns their paths."""
    paths = [folder / f"{name}.float32.parquet" for name in names]
    for path, name in zip(paths, names, strict=True):
        samples.write(
            path, [row(kernel=name, **given)], {"code": "v1", "job": path.stem} | (session or {})
        )
    return paths


def confirm(folder, paths, **session):
    """The file of a confirmation of those files."""
    jobs = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    path = folder / "confirmed.parquet"
    samples.write(
        path, [row(process=1)], {"job": "confirmed", "jobs": jobs, "code": "other"} | session
    )
    return path


EMPTY = {"fingerprint": {}}


def test_a_dataset_that_is_whole_is_read(tmp_path):
    paths = write(tmp_path, "a", "b")
    records, _ = dataset.load(paths, EMPTY)
    assert [record["kernel"] for record in records] == ["a", "b"]
    _, sessions = dataset.load([*paths, confirm(tmp_path, paths, swept="v1")], EMPTY)
    assert [session["job"] for session in sessions] == ["a.float32", "b.float32", "confirmed"]
    other = confirm(tmp_path, paths, swept="v2")
    message = r"confirmed\.parquet: measured by version v2 of the measuring code; expected v1"
    with pytest.raises(InputError, match=message):
        dataset.load([*paths, other], EMPTY)


def test_a_repeat_without_its_sweep_has_the_same_best_and_pairs(tmp_path):
    kernels = (
        "07_double_buffer",
        "08_padded_shared",
        "10_block_tile_128",
        "16_thin_edge",
        "cublas",
    )
    folder = synthetic.write(tmp_path / "d", problems=synthetic.SMALL, kernels=kernels, processes=3)
    whole = Dataset.open(folder)
    shutil.rmtree(folder / "samples")
    repeat = Dataset.open(folder)
    assert (whole.has_sweep, repeat.has_sweep) == (True, False)
    pd.testing.assert_frame_equal(repeat.pairs, whole.pairs)
    of_sweep = ["configurations", "left_out", "frobenius_error", "component_error", "race"]
    pd.testing.assert_frame_equal(
        repeat.best.drop(columns=of_sweep), whole.best.drop(columns=of_sweep)
    )
    assert set(repeat.pairs["pair"]) == {"gain", "null", "twins"}


def test_a_file_under_another_name_is_refused(tmp_path):
    """As one kernel's samples in place of another's, or of another element type, or of another
    shard.
    """
    path, other = write(tmp_path, "a", "b")
    path.write_bytes(other.read_bytes())
    with pytest.raises(
        InputError, match=rf"a\.float32\.parquet: {faults.MACHINE['misnamed'].reason}\. Where it"
    ):
        dataset.load([path], EMPTY)
    samples.write(path, [row(kernel="b")], {})  # of before files said what they are
    with pytest.raises(
        InputError,
        match=r"has the measurements of b\.float32; expected those of a\.float32\. .*git checkout",
    ):
        dataset.load([path], EMPTY)
    shard = tmp_path / "b.float32.2of3.parquet"
    samples.write(shard, [row(kernel="b")], {"job": "b.float32.1of3"})
    with pytest.raises(
        InputError,
        match=r"has the measurements of b\.float32\.1of3; expected those of b\.float32\.2of3",
    ):
        dataset.load([shard], EMPTY)
    calls = tmp_path / "baselines.float32.parquet"
    samples.write(calls, [row(kernel="cublas")], {})
    assert len(dataset.load([calls], EMPTY)[0]) == 1


def test_two_versions_of_the_measuring_code_are_never_one_dataset(tmp_path):
    paths = [*write(tmp_path, "a", "b"), *write(tmp_path, "c", session={"code": "v2"})]
    with pytest.raises(
        InputError,
        match=rf"c\.float32\.parquet: {faults.MACHINE['mixed'].reason}, as of a\.float32",
    ):
        dataset.load(paths, EMPTY)


def test_samples_that_are_not_those_confirmed_are_refused(tmp_path):
    paths = write(tmp_path, "a", "b")
    whole = confirm(tmp_path, paths)
    with pytest.raises(
        InputError, match=rf"confirmed\.parquet: {faults.MACHINE['missing'].reason}"
    ):
        dataset.load([paths[0], whole], EMPTY)
    with pytest.raises(InputError, match=r"in samples/: c\.float32 is not among them"):
        dataset.load([*paths, *write(tmp_path, "c"), whole], EMPTY)
    write(tmp_path, "b", samples_us=[1.0] * 10)  # with a checksum of its own that is right
    with pytest.raises(
        InputError, match=r"in samples/: b\.float32 is another\. Where it is committed, restore"
    ):
        dataset.load([*paths, whole], EMPTY)


@pytest.mark.parametrize("text", [b"", b"what is this\n", b"\xff\xfe\0", b'kernel\n"'])
def test_a_table_that_is_none_is_told(tmp_path, text):
    (tmp_path / "best.csv").write_bytes(text)
    message = (
        r"best\.csv: (not a table|got the columns .*; expected kernel).*\. Where it is committed"
    )
    with pytest.raises(InputError, match=message):
        csv_files.read_csv(tmp_path / "best.csv")
