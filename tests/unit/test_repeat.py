"""How far results repeat, on made-up runs whose spread is known."""

import hashlib
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.analysis import repeatability
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.storage import csv_files, samples
from planted import written

OF_MACHINE, OF_RUN = 0.02, 0.005
"""Standard deviations of the log ratio."""
NONE = {"pairs": 0, "rows": 0, "covered": None}
PAIRS = pd.DataFrame(columns=["pair", "state", "verdict", "low", "high"])


def runs(machines, ratios, half=0.0, problems=("64", "128")):
    """What runs on machines of the given names measured. `ratios` has the log ratios of each run,
    of as many candidates on each problem; log times are twice as far apart, the other way.
    """
    made = []
    for number, (machine, values) in enumerate(zip(machines, ratios, strict=True)):
        names = [
            (f"k{i}", "-", "", "float32", problem, "warm", False, False)
            for problem in problems
            for i in range(len(values) // len(problems))
        ]
        table = pd.DataFrame(names, columns=repeatability.CANDIDATE)
        table = table.assign(log_ratio=values, half=half, processes=5, log_us=-2 * values)
        made.append(table.assign(run=number, name=f"run{number}", machine=machine))
    return pd.concat(made, ignore_index=True)


def typical(machines, seed=0, candidates=40):
    """Runs of two problems; what is a machine's or a run's own is another in every candidate."""
    random = np.random.default_rng(seed)
    levels = {
        machine: OF_MACHINE * random.normal(size=2 * candidates)
        for machine in sorted(set(machines))
    }
    ratios = [levels[name] + OF_RUN * random.normal(size=2 * candidates) for name in machines]
    # what five processes would state whose mean has this standard deviation
    return runs(machines, ratios, 2.776 * OF_RUN)


def test_the_spread_of_runs_and_of_machines_is_found():
    table = repeatability.table(typical("aabbc", candidates=400))
    assert table["problem"].tolist() == ["64", "128"]
    for column, expected in (
        ("machines", 3),
        ("runs", 5),
        ("candidates", 400),
        ("repeat_pairs", 2),
        ("reproduce_pairs", 8),
        ("repeat_sd", pytest.approx(OF_RUN, rel=0.1)),
        ("reproduce_sd", pytest.approx(math.hypot(OF_MACHINE, OF_RUN), rel=0.1)),
    ):
        assert table[column].tolist() == [expected] * 2
    assert (table["repeat_limit"] == 2.8 * table["repeat_sd"]).all()
    of_three_machines = pytest.approx(math.sqrt(2) * 4.3027, rel=1e-4)
    assert (table["reproduce_limit"] / table["reproduce_sd"]).tolist() == [of_three_machines] * 2
    for name in ("repeat", "reproduce"):
        factors = table[f"{name}_time_limit"] / table[f"{name}_limit"]
        assert factors.tolist() == pytest.approx([2, 2])


@pytest.mark.parametrize(
    ("machines", "claim", "pairs", "rows", "least", "most"),
    [
        ("aabc", "same_machine", 1, 600, 0.93, 1),
        ("aabc", "other_machine", 5, 5 * 600, 0.97, 1),
        ("aabcd", "held_out", 9, 2 * 9 * 600, 0.97, 1),  # each is held out for either machine
        ("aabb", "same_held_out", 2, 2 * 600, 0.92, 0.98),
    ],
)
def test_coverage_is_counted_against_what_was_stated(machines, claim, pairs, rows, least, most):
    claims = repeatability.claims(typical(machines, seed=1, candidates=300), PAIRS)
    counted = claims[claim]
    assert (counted["pairs"], counted["rows"]) == (pairs, rows)
    assert least <= counted["covered"] <= most
    assert claims["machines"] == len(set(machines))


@pytest.mark.parametrize(
    ("machines", "claims"),
    [
        ("aabc", ["held_out", "same_held_out"]),  # two machines make no limit for a third
        ("ab", ["held_out", "same_machine"]),
        ("a", ["same_machine", "other_machine"]),
    ],
)
def test_what_nothing_can_be_said_of_is_empty(machines, claims):
    made = repeatability.claims(typical(machines), PAIRS)
    assert [made[name] for name in claims] == [NONE] * len(claims)


def test_a_limit_needs_pairs_and_three_machines():
    assert repeatability.table(typical("a")).empty
    for machines, known in (("aa", False), ("aab", True)):
        table = repeatability.table(typical(machines))
        assert table["repeat_limit"].notna().all()
        assert table["reproduce_sd"].notna().all() == known
        assert table[["reproduce_limit", "reproduce_time_limit"]].isna().all(axis=None)


@pytest.mark.parametrize(
    "column",
    [
        "tensor_cores",  # which draw another power
        "other_baseline",  # which may choose another algorithm on another machine
    ],
)
def test_what_uses_the_tensor_cores_and_baselines_have_limits_of_their_own(column):
    measured = typical("abc", candidates=60)
    apart = measured["kernel"].isin(["k0", "k1", "k2"])
    measured.loc[apart, "log_ratio"] = 0.2 * measured["run"]
    measured.loc[apart, column] = True
    limits = repeatability.table(measured).set_index(["problem", column])
    assert limits.loc[("64", True), "candidates"] == 3
    assert limits.loc[("64", True), "reproduce_sd"] == pytest.approx(0.2)
    of_others = limits.loc[("64", False), "reproduce_sd"]
    assert of_others == pytest.approx(math.hypot(OF_MACHINE, OF_RUN), rel=0.25)


def test_a_difference_is_within_welchs_interval():
    values = OF_RUN * np.random.default_rng(2).normal(size=(2, 4000, 5))
    halves = 2.7764 * values.std(axis=2, ddof=1) / math.sqrt(5)
    measured = runs("aa", values.mean(axis=2), problems=["64"]).assign(half=halves.flatten())
    claims = repeatability.claims(measured, PAIRS)
    assert claims["same_machine"]["covered"] == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("machines", [3, 5])
def test_a_limit_from_few_machines_covers_the_next_ones(machines):
    """Though each machine moves all kernels of a problem together, however many they are. Each
    problem has a limit of its own.
    """
    problems = [str(size) for size in range(200)]
    levels = np.random.default_rng(3).normal(size=(machines, len(problems)))
    measured = runs(range(machines), np.repeat(levels, 3, axis=1), problems=problems)
    limits = repeatability.table(measured)["reproduce_limit"]
    assert len(limits) == len(problems)
    # the chance that two more machines differ by no more
    assert 0.92 <= np.mean([math.erf(limit / 2) for limit in limits]) <= 0.98


def test_a_limit_for_a_rarer_case_is_wider_by_what_its_machines_tell():
    known, of_three = repeatability.Limit(0.1), repeatability.Limit(0.1, 2)
    assert known.at(0.95) == of_three.at(0.95) == pytest.approx(0.1)
    assert known.at(0.999) == pytest.approx(0.1 * 3.2905 / 1.96, rel=1e-4)
    assert of_three.at(0.999) == pytest.approx(0.1 * 31.599 / 4.3027, rel=1e-4)


def test_a_limit_that_is_too_narrow_shows_and_the_worst_runs_are_named():
    measured = typical("aabb", candidates=100)
    measured.loc[measured["run"] == 3, "log_ratio"] += 0.5
    same = repeatability.claims(measured, PAIRS)["same_machine"]
    assert same["covered"] == pytest.approx(1 / 2, abs=0.05)
    assert list(same["problems"]) == ["64 warm", "128 warm"]
    assert [problem["rows"] for problem in same["problems"].values()] == [200, 200]
    assert same["least"] == {"of": "run2 and run3", "pairs": 1, "rows": 200, "covered": 0}
    shifted = typical("abcd", candidates=100)
    shifted.loc[shifted["run"] == 3, "log_ratio"] += 0.5  # the fourth machine is like no other
    claims = repeatability.claims(shifted, PAIRS)
    assert claims["other_machine"]["covered"] == 1  # its limit knows of it
    # all fails where it is held out
    assert claims["held_out"]["covered"] == pytest.approx(3 / 4, abs=0.02)
    assert claims["held_out"]["least"] == {"of": "d", "pairs": 3, "rows": 600, "covered": 0}


def test_controls_that_are_called_different_are_counted():
    rows = [
        ("twins", "warm", "slower", 1.0, 1.001),
        ("twins", "warm", "not distinguishable", 1.0002, 1.0008),
        ("null", "warm", "faster", 1.01, 1.02),
        ("null", "sustained", "not distinguishable", 0.99, 1.02),
        ("apart", "warm", "slower", 0.98, 0.99),
        ("gain", "warm", "faster", 1.1, 1.2),
    ]
    claims = repeatability.claims(typical("ab"), pd.DataFrame(rows, columns=PAIRS.columns))
    for name, pairs, share in (
        ("twins", 2, 0.5),
        ("null", 2, 0.5),
        ("null_sustained", 1, 0.0),
        ("apart", 1, 1.0),
    ):
        called = {"called_different": share, "interval_leaves_out_1": share}
        assert claims[name] == {"pairs": pairs, **called}
    short = repeatability.worded(claims | {"runs": [], "machines": 2})["short"]
    assert "the same rounds, 50.0% of 2 comparisons find a difference" in short
    assert "other rounds, 100.0% of 1 comparisons find a difference" in short


SMALL = {"problems": [(256, 256, 256)], "kernels": ("03_shared_tile", "cublas"), "processes": 3}


def write_dataset(folder, machine, factor):
    """A published dataset of two kernels, one `factor` times as fast as the reference, without
    noise; all of one device.
    """
    synthetic.write(folder, device="d", **SMALL)
    path = folder / "confirmed.parquet"
    rows, session = samples.read(path)
    rows = [row for row in rows if row["state"] == "warm" and row["role"] == "best"]
    for row in rows:
        us = 1.01 if row["kernel"] == "cublas" else 1 / factor
        row |= {"samples_us": [us * (1 + row["process"] / 1e4)] * 3, "reference_us": [1.0] * 3}
    samples.write(path, [row | {"uuid": machine} for row in rows], session)
    return folder


def test_a_busy_machine_says_nothing_of_how_far_runs_differ(tmp_path):
    sizes = SMALL | {"problems": [(256, 256, 256), (512, 512, 512)]}
    busy = Dataset.open(synthetic.write(tmp_path / "busy", busy=256, **sizes))
    assert set(repeatability.measured({"busy": busy})["problem"]) == {"512"}


def test_published_datasets_of_a_model_make_a_table_and_claims(tmp_path):
    first, second = (tmp_path / "d" / "default" / name for name in ("1", "2"))
    write_dataset(first, "GPU-1", 1.0)
    synthetic.index(tmp_path)
    assert repeatability.write(tmp_path) == []  # nothing to compare with
    write_dataset(second, "GPU-2", 1.01)
    shutil.rmtree(second / "samples")
    # its campaign left the confirmation out
    written(tmp_path / "d" / "old" / "1" / "environment.json", "{}")
    synthetic.index(tmp_path)
    table, claims = repeatability.write(tmp_path)
    assert (table.name, claims.name) == ("repeat-d.csv", "repeat-d.json")
    (row,) = csv_files.read_csv(table).to_dict("records")
    assert row["reproduce_sd"] == pytest.approx(math.log(1.01) / math.sqrt(2), rel=1e-4)
    # the reference beside itself is no result
    assert (row["candidates"], row["machines"], row["runs"]) == (1, 2, 2)
    made = json.loads(claims.read_text())
    assert made["runs"] == [
        {
            "dataset": f"d/default/{number}",
            "machine": f"GPU-{number}",
            "commit": synthetic.ENVIRONMENT["project"]["commit"],
            "confirmed_sha256": hashlib.sha256(
                (folder / "confirmed.parquet").read_bytes()
            ).hexdigest(),
        }
        for number, folder in enumerate((first, second), 1)
    ]
    assert made["null"] == {"pairs": 2, "called_different": 1.0, "interval_leaves_out_1": 1.0}


def test_a_kernel_that_was_another_then_has_not_repeated(tmp_path):
    folders = [write_dataset(tmp_path / name, f"GPU-{name}", 1.0) for name in ("1", "2")]

    def differences():
        opened = {folder.name: Dataset.open(folder) for folder in folders}
        return repeatability.differences(repeatability.measured(opened))

    assert len(differences()) == 1
    # older confirmations do not say it, but the compilers' reports do
    reports = folders[1] / "resources.csv"
    before = reports.read_text()
    reports.write_text(before.replace(",gemm,", "x,gemm,"))  # the end of each digest
    assert differences().empty
    reports.write_text(before)
    path = folders[1] / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [row | {"binary_sha256": "f" * 64} for row in rows], session)
    assert differences().empty


def test_a_run_is_one_confirmation_on_one_device(tmp_path):
    synthetic.write(tmp_path / "none", **SMALL | {"processes": 0})
    path = write_dataset(tmp_path / "two", "GPU-1", 1.0) / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [*rows, rows[0] | {"uuid": "GPU-2"}], session)
    for name, message in (
        ("none", "missing; expected a dataset whose campaign has not left"),
        ("two", "measured on 2 devices; expected one"),
    ):
        dataset = Dataset.open(tmp_path / name)
        with pytest.raises(InputError, match=rf"{name}/confirmed\.parquet: {message}"):
            repeatability.measured({name: dataset})


ALIKE = ("float32", "64", "warm", False, False)
OTHER = ("float32", "65", "warm", True, False)


@pytest.mark.parametrize(
    ("first", "second", "of", "expected"),
    [
        ("d a", "d a", "time_", {ALIKE: repeatability.Limit(0.01)}),
        ("d a", "d a", "", dict.fromkeys((ALIKE, OTHER), repeatability.Limit(0.03))),
        ("d a", "d b", "time_", dict.fromkeys((ALIKE, OTHER), repeatability.Limit(0.02, 2))),
        ("d", "d", "time_", dict.fromkeys((ALIKE, OTHER), repeatability.Limit(0.02, 2))),  # CPUs
        ("d a", "d b", "", dict.fromkeys((ALIKE, OTHER), repeatability.Limit(0.04, 2))),
        ("d a", "e a", "", {}),
        ("e a", "d a", "", {}),
        ("d-cublas-1 a", "d-cublas-2 a", "time_", {ALIKE: repeatability.Limit(0.01)}),
        ("d-cublas-1 a", "e-cublas-1 a", "", {}),
        ("f a", "f a", "", {}),
    ],
)
def test_the_limit_is_that_of_the_machines(tmp_path, first, second, of, expected):
    """The environments are a device and the UUID of its GPU, which a CPU has not."""
    limits = {"repeat_limit": 0.03, "reproduce_limit": 0.04, "reproduce_time_limit": 0.02}
    table = pd.DataFrame([ALIKE, OTHER], columns=repeatability.PROBLEM)
    table = table.assign(machines=3, repeat_time_limit=[0.01, None], **limits)
    csv_files.write_csv(table, tmp_path / "repeat-d.csv")
    environments = []
    for text in (first, second):
        device, _, uuid = text.partition(" ")
        environments.append({"device": device, "attributes": {"uuid": uuid or None}})
    assert repeatability.limits(tmp_path, *environments, of) == expected
