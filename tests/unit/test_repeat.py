"""How far results repeat, on made-up runs whose spread is known."""

import hashlib
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.analysis import repeatability
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.storage import csv_files, samples
from planted import written

SIZES = (64, 128)
OF_MACHINE, OF_RUN = 0.02, 0.005
"""Standard deviations of the log ratio."""


NONE = {"pairs": 0, "rows": 0, "covered": None}
EMPTY = pd.DataFrame(columns=["pair", "verdict", "low", "high"])


def runs(machines, seed=0, candidates=40, called="not distinguishable"):
    """Runs on machines of the given names; what is a machine's or a run's own is another in every
    candidate.
    """
    random = np.random.default_rng(seed)
    names = [
        (f"k{i}", "-", "", "float32", str(size), "warm", False, False)
        for size in SIZES
        for i in range(candidates)
    ]
    table = pd.DataFrame(names, columns=repeatability.CANDIDATE)
    levels = {
        machine: OF_MACHINE * random.normal(size=len(table)) for machine in sorted(set(machines))
    }
    half = 2.776 * OF_RUN  # what five processes would state whose mean has this standard deviation
    pairs = pd.DataFrame(
        {
            "pair": ["twins", "twins", "null", "gain"],
            "verdict": [called, "not distinguishable"] + ["faster"] * 2,
            "low": [1.0, 1.0002, 1.01, 1.1],
            "high": [1.001, 1.0008, 1.02, 1.2],
        }
    )

    def run(level):
        ratios = level + OF_RUN * random.normal(size=len(table))
        # twice as far apart, the other way
        return table.assign(log_ratio=ratios, half=half, processes=5, log_us=-2 * ratios)

    return [
        repeatability.Run(f"run{i}", "d", m, {}, run(levels[m]), pairs)
        for i, m in enumerate(machines)
    ]


def test_the_spread_of_runs_and_of_machines_is_found():
    table = repeatability.table(runs(["a", "a", "b", "b", "c"], candidates=400))
    assert table["problem"].tolist() == ["64", "128"]
    assert table[["machines", "runs", "candidates"]].to_numpy().tolist() == [[3, 5, 400]] * 2
    assert table[["repeat_pairs", "reproduce_pairs"]].to_numpy().tolist() == [[2, 8]] * 2
    assert table["repeat_sd"].tolist() == pytest.approx([OF_RUN] * 2, rel=0.1)
    assert table["reproduce_sd"].tolist() == pytest.approx(
        [math.hypot(OF_MACHINE, OF_RUN)] * 2, rel=0.1
    )
    assert (table["repeat_limit"] == 2.8 * table["repeat_sd"]).all()
    assert (table["reproduce_limit"] / table["reproduce_sd"]).tolist() == pytest.approx(
        [math.sqrt(2) * 4.3027] * 2, rel=1e-4
    )
    for name in ("repeat", "reproduce"):
        assert table[f"{name}_time_limit"].tolist() == pytest.approx(
            list(2 * table[f"{name}_limit"])
        )


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
    claims = repeatability.claims(runs(machines, seed=1, candidates=300))
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
    made = repeatability.claims(runs(machines))
    assert [made[name] for name in claims] == [NONE] * len(claims)


def test_a_limit_needs_pairs_and_three_machines():
    assert repeatability.table(runs("a")).empty
    assert repeatability.table([]).empty
    for machines, known in (("aa", False), ("aab", True)):
        table = repeatability.table(runs(machines))
        assert table["repeat_limit"].notna().all()
        assert table["reproduce_sd"].notna().all() == known
        assert table["reproduce_limit"].isna().all()
        assert table["reproduce_time_limit"].isna().all()


@pytest.mark.parametrize(
    "column",
    [
        "tensor_cores",  # which draw another power
        "other_baseline",  # which may choose another algorithm on another machine
    ],
)
def test_what_uses_the_tensor_cores_and_baselines_have_limits_of_their_own(column):
    several = runs("abc", candidates=60)
    for number, run in enumerate(several):
        apart = run.ratios["kernel"].isin(["k0", "k1", "k2"])
        run.ratios.loc[apart, [column, "log_ratio"]] = True, 0.2 * number
    limits = repeatability.table(several).set_index(["problem", column])
    assert limits.loc[("64", True), "candidates"] == 3
    assert limits.loc[("64", True), "reproduce_sd"] == pytest.approx(0.2)
    of_others = limits.loc[("64", False), "reproduce_sd"]
    assert of_others == pytest.approx(math.hypot(OF_MACHINE, OF_RUN), rel=0.25)


def test_the_pair_of_runs_that_repeats_the_least_is_named():
    several = runs(["a", "a", "b", "b"], candidates=100)
    several[3].ratios["log_ratio"] += 0.5
    claims = repeatability.claims(several)["same_machine"]
    assert claims["least"] == {"of": "run2 and run3", "pairs": 1, "rows": 200, "covered": 0}
    assert (claims["pairs"], claims["rows"]) == (2, 400)
    assert claims["covered"] == pytest.approx(1 / 2, abs=0.05)


def test_a_difference_is_within_welchs_interval():
    """Which is narrower than the root of the sum of the squares of two intervals by t of few
    processes.
    """
    random, few = np.random.default_rng(2), 5
    names = [(f"k{i}", "-", "", "float32", "64", "warm", False, False) for i in range(4000)]

    def run(name):
        values = random.normal(scale=OF_RUN, size=(len(names), few))
        half = 2.7764 * values.std(axis=1, ddof=1) / math.sqrt(few)
        table = pd.DataFrame(names, columns=repeatability.CANDIDATE)
        table = table.assign(log_ratio=values.mean(axis=1), half=half, processes=few, log_us=0.0)
        return repeatability.Run(name, "d", "a", {}, table, EMPTY)

    first, second = run("one"), run("other")
    assert repeatability.claims([first, second])["same_machine"]["covered"] == pytest.approx(
        0.95, abs=0.01
    )
    both = np.hypot(first.ratios["half"], second.ratios["half"])
    assert (abs(first.ratios["log_ratio"] - second.ratios["log_ratio"]) <= both).mean() > 0.968


@pytest.mark.parametrize("machines", [3, 5])
def test_a_limit_from_few_machines_covers_the_next_ones(machines):
    """Though each machine moves all kernels of a problem together, however many they are. Each
    problem has a limit of its own.
    """
    random, problems = np.random.default_rng(3), [str(size) for size in range(200)]
    names = [
        (f"k{i}", "-", "", "float32", problem, "warm", False, False)
        for problem in problems
        for i in range(3)
    ]
    candidates = pd.DataFrame(names, columns=repeatability.CANDIDATE)
    made = []
    for number in range(machines):
        ratios = np.repeat(random.normal(size=len(problems)), 3)
        table = candidates.assign(log_ratio=ratios, half=0.0, processes=5, log_us=0.0)
        made.append(repeatability.Run("", "d", str(number), {}, table, pd.DataFrame()))
    limits = repeatability.table(made)["reproduce_limit"]
    assert len(limits) == len(problems)
    # the chance that two more machines differ by no more
    covered = [math.erf(limit / 2) for limit in limits]
    assert 0.92 <= np.mean(covered) <= 0.98


def test_a_limit_for_a_rarer_case_is_wider_by_what_its_machines_tell():
    known, of_three = repeatability.Limit(0.1), repeatability.Limit(0.1, 2)
    assert known.at(0.95) == of_three.at(0.95) == pytest.approx(0.1)
    assert known.at(0.999) == pytest.approx(0.1 * 3.2905 / 1.96, rel=1e-4)
    assert of_three.at(0.999) == pytest.approx(0.1 * 31.599 / 4.3027, rel=1e-4)


def test_a_limit_that_is_too_narrow_shows():
    narrow = runs(["a", "a", "b"])
    narrow = [
        replace(run, ratios=run.ratios.assign(half=run.ratios["half"] / 10)) for run in narrow
    ]
    assert repeatability.claims(narrow)["same_machine"]["covered"] < 0.5
    shifted = runs(["a", "b", "c", "d"], candidates=100)
    shifted[3].ratios["log_ratio"] += 0.5  # the fourth machine is like no other
    claims = repeatability.claims(shifted)
    assert claims["other_machine"]["covered"] == 1  # its limit knows of it
    # all fails where it is held out
    assert claims["held_out"]["covered"] == pytest.approx(3 / 4, abs=0.02)
    assert claims["held_out"]["least"] == {"of": "d", "pairs": 3, "rows": 600, "covered": 0}


def test_controls_that_are_called_different_are_counted():
    claims = repeatability.claims(runs(["a", "b"], called="slower"))
    assert claims["twins"] == {"pairs": 4, "called_different": 0.5, "interval_leaves_out_1": 0.5}
    assert claims["null"] == {"pairs": 2, "called_different": 1.0, "interval_leaves_out_1": 1.0}


def write_dataset(folder, machine, factor):
    """A published dataset of two kernels, one `factor` times as fast as the reference, without
    noise; all of one device.
    """
    synthetic.write(
        folder,
        device="d",
        problems=[(256, 256, 256)],
        kernels=("03_shared_tile", "cublas"),
        processes=3,
    )
    rows, session = samples.read(folder / "confirmed.parquet")
    rows = [row for row in rows if row["state"] == "warm" and row["role"] == "best"]
    for row in rows:
        us = 1.01 if row["kernel"] == "cublas" else 1 / factor
        row |= {
            "samples_us": [us * (1 + row["process"] / 1e4)] * 3,
            "reference_us": [1.0] * 3,
            "uuid": machine,
        }
    samples.write(folder / "confirmed.parquet", rows, session)


def exactly(folder):
    """What a dataset's commit and confirmation are."""
    sha256 = hashlib.sha256((folder / "confirmed.parquet").read_bytes()).hexdigest()
    return {"commit": synthetic.ENVIRONMENT["project"]["commit"], "confirmed_sha256": sha256}


def test_a_busy_machine_says_nothing_of_how_far_runs_differ(tmp_path):
    sizes = {
        "problems": [(256, 256, 256), (512, 512, 512)],
        "kernels": ("03_shared_tile", "cublas"),
        "processes": 3,
    }
    run = repeatability.run_of(Dataset.open(synthetic.write(tmp_path / "busy", busy=256, **sizes)))
    assert set(run.ratios["problem"]) == {"512"}


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
    assert [path.name for path in repeatability.write(tmp_path)] == [
        "repeat-d.csv",
        "repeat-d.json",
    ]
    (row,) = csv_files.read_csv(tmp_path / "repeat-d.csv").to_dict("records")
    assert row["reproduce_sd"] == pytest.approx(math.log(1.01) / math.sqrt(2), rel=1e-4)
    # the reference beside itself is no result
    assert (row["candidates"], row["machines"], row["runs"]) == (1, 2, 2)
    claims = json.loads((tmp_path / "repeat-d.json").read_text())
    assert claims["runs"] == [
        {"dataset": "d/default/1", "machine": "GPU-1", **exactly(first)},
        {"dataset": "d/default/2", "machine": "GPU-2", **exactly(second)},
    ]
    assert claims["null"] == {"pairs": 2, "called_different": 1.0, "interval_leaves_out_1": 1.0}


def test_a_kernel_that_was_another_then_has_not_repeated(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        write_dataset(folder, f"GPU-{number}", 1.0)

    def differences():
        opened = [repeatability.run_of(Dataset.open(folder)) for folder in folders]
        return repeatability.differences(opened)

    assert len(differences()) == 1
    path = folders[1] / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [row | {"binary_sha256": "f" * 64} for row in rows], session)
    assert differences().empty


def test_a_run_is_one_confirmation_on_one_device(tmp_path):
    synthetic.write(
        tmp_path / "none",
        problems=[(256, 256, 256)],
        kernels=("03_shared_tile", "cublas"),
        processes=0,
    )
    with pytest.raises(
        InputError,
        match=r"none/confirmed\.parquet: missing; expected a dataset whose campaign has not left",
    ):
        repeatability.run_of(Dataset.open(tmp_path / "none"))
    write_dataset(tmp_path / "two", "GPU-1", 1.0)
    path = tmp_path / "two" / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [*rows, rows[0] | {"uuid": "GPU-2"}], session)
    with pytest.raises(
        InputError, match=r"confirmed\.parquet: measured on 2 devices; expected one"
    ):
        repeatability.run_of(Dataset.open(tmp_path / "two"))


ALIKE = ("float32", "64", "warm", False, False)
OTHER = ("float32", "65", "warm", True, False)


@pytest.mark.parametrize(
    ("first", "second", "of", "expected"),
    [
        ("d a", "d a", "time_", {ALIKE: repeatability.Limit(0.01)}),
        ("d a", "d a", "", {key: repeatability.Limit(0.03) for key in (ALIKE, OTHER)}),
        ("d a", "d b", "time_", {key: repeatability.Limit(0.02, 2) for key in (ALIKE, OTHER)}),
        ("d", "d", "time_", {key: repeatability.Limit(0.02, 2) for key in (ALIKE, OTHER)}),  # CPUs
        ("d a", "d b", "", {key: repeatability.Limit(0.04, 2) for key in (ALIKE, OTHER)}),
        ("d a", "e a", "", {}),
        ("e a", "d a", "", {}),
        ("f a", "f a", "", {}),
    ],
)
def test_the_limit_is_that_of_the_machines(tmp_path, first, second, of, expected):
    """The environments are a device and the UUID of its GPU, which a CPU has not."""
    columns = ["element_type", "problem", "state", "tensor_cores", "other_baseline"]
    limits = {"repeat_limit": 0.03, "reproduce_limit": 0.04, "reproduce_time_limit": 0.02}
    table = pd.DataFrame([ALIKE, OTHER], columns=columns)
    table = table.assign(machines=3, repeat_time_limit=[0.01, None], **limits)
    csv_files.write_csv(table, tmp_path / "repeat-d.csv")
    environments = []
    for text in (first, second):
        device, _, uuid = text.partition(" ")
        environments.append({"device": device, "attributes": {"uuid": uuid or None}})
    assert repeatability.limits(tmp_path, *environments, of) == expected
