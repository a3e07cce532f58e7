"""Tables of a sweep: rates, marks and the fastest; and which files make up a dataset."""

import hashlib
import shutil

import faults
import pandas as pd
import pytest
import synthetic
from ladder.analysis import dataset
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.core.files import digest
from ladder.storage import csv_files, dataset_layout, samples
from rows import made, row, summarize


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
    assert summarize([swept])["marks"].tolist() == [mark]
    (best,) = made([swept, *confirmed]).to_dict("records")
    assert (best["marks"], best["processes"]) == (mark, 3)
    for name in ("gauntlet_problems", "gauntlet_changed"):
        assert best[name] == given[name] if name in given else pd.isna(best[name])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # 2e6 operations in 2 microseconds, half of the peak
        ({}, {"tflops": 1.0, "reference_tflops": 2.0, "peak_fraction": 0.5, "samples": 10}),
        ({}, {"ratio": 0.5, "ratio_low": 0.5, "ratio_high": 0.5, "problem": "100"}),
        ({}, {"tflop_per_j": None, "clock_fraction": None, "throttled_share": None}),
        ({"energy_j": 1e-4}, {"tflop_per_j": 0.02}),
        ({"sm_clock_mhz": 1000.0}, {"clock_fraction": 0.5}),  # of 2000 operations a clock
        # none, idle, power cap, heat
        ({"samples_throttle_reasons": [0, 0x1, 0x4, 0x40 | 0x1]}, {"throttled_share": 0.5}),
        ({"other_processes": 0}, {"marks": "", "reason": ""}),
        (
            {"other_processes": 2},
            {
                "marks": "disturbed",
                "reason": "timed while 2 other process(es) computed on the device",
            },
        ),
        (
            {"other_processes": 1.68, "reference": "blas_1"},
            {"marks": "disturbed", "reason": "timed while other processes used 1.7 cores"},
        ),
        *(
            ({"status": status}, dict.fromkeys(("tflops", "ratio", "median_us", "peak_fraction")))
            for status in ("incorrect", "timeout", "compile_error", "not_supported", "skipped")
        ),
    ],
)
def test_a_row_of_the_summary(given, expected):
    (line,) = summarize([row(reason="", **given)]).to_dict("records")
    for name, value in expected.items():
        if value is None:
            assert pd.isna(line[name]), name
        else:
            assert line[name] == (value if isinstance(value, str) else pytest.approx(value)), name


@pytest.mark.parametrize(
    ("other", "tied"),
    [
        ({"samples_us": [3.0] * 10}, ""),
        ({"samples_us": [1.06] * 10}, "other"),
        ({"samples_us": [0.1] * 10, "status": "incorrect"}, ""),
        ({"samples_us": [0.5] * 5, "reference_us": [0.4] * 5, "stop": "race"}, ""),
    ],
)
def test_the_best_is_the_fastest_correct_one_and_ties_are_named(other, tied):
    fast = row(configuration="fast", samples_us=[1.0, 1.1] * 5)
    rows = [row(configuration="other", **other), fast, row(kernel="other", status="timeout")]
    (line,) = made(rows).to_dict("records")
    assert (line["kernel"], line["configuration"], line["configurations"]) == ("k", "fast", 2)
    assert line["tied_with"] == tied


def test_problems_of_one_size_with_other_operands_are_apart_and_named_by_what_differs():
    rows = [row(beta=2.0), *(row(beta=2.0, padding=3, samples_us=[us] * 10) for us in (3.0, 4.0))]
    summary = summarize(rows)
    # all have that beta
    assert summary["problem"].tolist() == ["100", "100 padding=3", "100 padding=3"]
    best = made(rows)
    assert dict(best[["problem", "median_us"]].to_numpy()) == {"100": 2.0, "100 padding=3": 3.0}


class Files:
    """The sample files of a dataset."""

    def __init__(self, folder):
        self.folder, self.paths = folder, []

    def add(self, *names, file="", **session):
        """Add a file with one row for each kernel of a name, or write it anew."""
        for name in names:
            path = self.folder / f"{file or name}.float32.parquet"
            made = {"code": "v1", "job": path.stem} | session
            samples.write(path, [row(kernel=name, samples_us=[len(self.paths)] * 10)], made)
            if path not in self.paths:
                self.paths.append(path)
        return self

    def confirm(self, part="", **session):
        """Add the file of a confirmation of those files, or of a part."""
        jobs = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in self.paths}
        made = {"job": f"confirmed{part}", "jobs": jobs, "code": "other"} | session
        samples.write(self.folder / f"confirmed{part}.parquet", [row(process=1)], made)
        return self

    def load(self, fingerprint=(), **environment):
        confirmed = dataset_layout.confirmations(self.folder)
        given = environment | {"fingerprint": dict(fingerprint)}
        return dataset.load([*self.paths, *confirmed], given)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


H580, H590 = {"driver": "580", "device": "H"}, {"driver": "590", "device": "H"}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"fingerprint": H580},
            r'b\.float32\.parquet: measured in another environment: driver was "590"; expected '
            r'"580"',
        ),
        (
            {"fingerprint": H580, "name": "L"},
            r"environment\.json: name: got L; expected H, as in its fingerprint",
        ),
        (
            {"fingerprint": H590 | {"device": "L"}},
            r'a\.float32\.parquet: .*: device was "H"; expected "L", '
            r'driver was "580"; expected "590", as in environment.json',
        ),
    ],
)
def test_two_environments_are_never_one_dataset(files, environment, message):
    files.add("a", fingerprint=H580).add("b", fingerprint=H590)
    with pytest.raises(InputError, match=message):
        files.load(**environment)


def test_samples_are_of_one_description_of_the_environment(files):
    files.add("a", described=digest({"peaks": 60.0, "fingerprint": {}}))
    assert files.load(peaks=60.0)
    message = r"a\.float32\.parquet: described: got \w+; expected \w+, the digest of env"
    with pytest.raises(InputError, match=message):
        files.load(peaks=61.0)


def test_a_dataset_that_is_whole_is_read(files):
    contents, sessions = files.add("a", "b").confirm(swept="v1").load()
    assert [table["kernel"].to_pylist() for table in contents.values()] == [["a"], ["b"], ["k"]]
    assert [session["job"] for session in sessions] == ["a.float32", "b.float32", "confirmed"]


def test_parts_of_a_confirmation_are_read_and_those_of_another_division_dropped(files):
    files.add("a").confirm(".1of2", swept="v1").confirm(".2of2", swept="v1").confirm()
    whole = dataset_layout.confirmations(files.folder)[1:]
    assert [path.name for path in whole] == ["confirmed.2of2.parquet", "confirmed.parquet"]
    dataset_layout.drop_others(files.folder, [files.folder / "confirmed.1of2.parquet", whole[0]])
    contents, sessions = files.load()
    assert [session["job"] for session in sessions[1:]] == ["confirmed.1of2", "confirmed.2of2"]
    assert len(contents) == 3
    files.add("a")
    with pytest.raises(InputError, match=r"confirmed\.1of2\.parquet: confirms other samples"):
        files.load()
    (files.folder / "confirmed.1of2.parquet").unlink()
    with pytest.raises(InputError, match=r"confirmed\.1of2\.parquet: missing"):
        files.load()


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
    assert set(whole.pairs["pair"]) == {"gain", "null", "twins"}
    shutil.rmtree(folder / "samples")
    repeat = Dataset.open(folder)
    assert (whole.has_sweep, repeat.has_sweep) == (True, False)
    pd.testing.assert_frame_equal(repeat.pairs, whole.pairs)
    of_sweep = ["configurations", "left_out", "frobenius_error", "component_error", "race"]
    pd.testing.assert_frame_equal(
        repeat.best.drop(columns=of_sweep), whole.best.drop(columns=of_sweep)
    )


def test_a_kernel_that_several_files_have_is_one(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "AT_ONCE", 1)
    kernels, name = ("10_block_tile_128", "cublas"), "10_block_tile_128.float32"
    folder = synthetic.write(tmp_path, problems=synthetic.SMALL, kernels=kernels, processes=0)
    best, path = Dataset.open(folder).best, folder / "samples" / f"{name}.parquet"
    rows, session = samples.read(path)
    path.unlink()
    for part, own in enumerate((rows[::2], rows[1::2], []), 1):
        job = f"{name}.{part}of3"
        samples.write(path.with_stem(job), own, session | {"job": job})
    pd.testing.assert_frame_equal(Dataset.open(folder).best, best, check_dtype=False)


@pytest.mark.parametrize(
    ("kernel", "file", "session", "message"),
    [
        (
            "b",
            "a",
            {"job": "b.float32"},
            rf"a\.float32\.parquet: {faults.MACHINE['misnamed'].reason}\. Where it is .*git checkout",
        ),
        (
            "b",
            "float32.1of1",
            {"job": "float64.1of1"},
            r"has the measurements of float64\.1of1; expected those of float32\.1of1",
        ),
        (
            "b",
            "float32.1of2",
            {"job": "float32.1of2"},
            r"/float32\.2of2\.parquet: missing; .*Else run",
        ),
        ("b", "float32.1of1", {"job": "float32.1of1"}, ""),
    ],
)
def test_a_file_under_another_name_is_refused(tmp_path, kernel, file, session, message):
    """As one kernel's samples in place of another's, or those of another part."""
    path = tmp_path / (f"{file}.parquet" if "." in file else f"{file}.float32.parquet")
    samples.write(path, [row(kernel=kernel)], session)
    if not message:
        assert len(dataset.load([path], {"fingerprint": {}})[0]) == 1
        return
    with pytest.raises(InputError, match=message):
        dataset.load([path], {"fingerprint": {}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda files: files.add("c", code="v2"),
            rf"c\.float32\.parquet: {faults.MACHINE['mixed'].reason}, as of a\.float32",
        ),
        (
            lambda files: files.confirm(swept="v2"),
            r"confirmed\.parquet: measured by version v2 of the measuring code; expected v1",
        ),
        (
            lambda files: files.confirm().paths.pop(),
            rf"confirmed\.parquet: {faults.MACHINE['missing'].reason}",
        ),
        (lambda files: files.confirm().add("c"), r"in samples/: c\.float32 is not among them"),
        (  # with a checksum of its own that is right
            lambda files: files.confirm().add("b"),
            r"in samples/: b\.float32 is another\. Where it is committed, restore",
        ),
    ],
)
def test_files_that_do_not_belong_together_are_refused(files, change, message):
    change(files.add("a", "b"))
    with pytest.raises(InputError, match=message):
        files.load()


@pytest.mark.parametrize("text", [b"", b"what is this\n", b"\xff\xfe\0", b'kernel\n"'])
def test_a_table_that_is_none_is_told(tmp_path, text):
    (tmp_path / "best.csv").write_bytes(text)
    message = (
        r"best\.csv: (not a table|got the columns .*; expected kernel).*\. Where it is committed"
    )
    with pytest.raises(InputError, match=message):
        csv_files.read_csv(tmp_path / "best.csv")
