"""Two datasets are told apart where they differ, and only there."""

import json
import math
import re
import shutil
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.analysis import compare, repeatability
from ladder.analysis.dataset import Dataset
from ladder.cli import main as command
from ladder.core import verdicts
from ladder.core.errors import MEASURE_AGAIN, NOTHING_MEASURED, InputError
from ladder.core.stats import between_processes, between_runs, half_of_difference
from ladder.figures.changes import changes as draw_changes
from ladder.figures.data import View
from ladder.figures.layout import style
from ladder.storage import samples
from ladder.storage.dataset_layout import DRAWN_FROM
from planted import written

KERNELS = (
    "03_shared_tile",
    "05_register_tile",
    "07_double_buffer",
    "08_padded_shared",
    "10_block_tile_128",
    "16_thin_edge",
    "cublas",
)
LARGE = [
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (2049, 2047, 2051),
    (8192, 128, 8192),
    (512, 512, 16384),
]
SLOWED = ("05_register_tile", "10_block_tile_128", "16_thin_edge")
SIZES = {"problems": LARGE, "kernels": KERNELS}
THREE = {"problems": LARGE[:3], "kernels": KERNELS}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Six runs of the same code, of which the last has three kernels slowed by 2 %."""
    folder = tmp_path_factory.mktemp("runs")
    written = [synthetic.write(folder / f"run{seed}", seed, **SIZES) for seed in range(5)]
    written.append(
        synthetic.write(folder / "slowed", 5, slower=dict.fromkeys(SLOWED, 1.02), **SIZES)
    )
    return [Dataset.open(each) for each in written]


def called(rows):
    return rows["verdict"].isin(["faster", "slower"])


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.0011, 1.01, "faster"),
        (1.0009, 1.01, verdicts.SAME),
        (0.9, 1.1, verdicts.SAME),
        (0.99, 0.9991, verdicts.SAME),
        (0.99, 0.9989, "slower"),
    ],
)
def test_what_is_within_a_thousandth_of_1_the_clock_cannot_tell(low, high, verdict):
    assert verdicts.of(low, high) == verdict


@pytest.mark.slow
def test_identical_code_is_called_different_in_one_of_twenty_at_most(runs):
    rows = pd.concat([compare.changes(*pair, {}) for pair in pairwise(runs[:5])])
    assert len(rows) > 150
    assert called(rows).mean() <= 0.05
    assert not rows["sure"].any()


@pytest.mark.slow
def test_two_per_cent_are_found_and_nothing_else_is(runs):
    limits = repeatability.of_nights(runs[:4], runs[5])
    tables = [compare.changes(run, runs[5], limits) for run in runs[:4]]
    rows = pd.concat(tables)
    is_slowed = rows["kernel"].isin(SLOWED)
    slowed, others = rows[is_slowed], rows[~is_slowed]
    assert len(slowed) > 70
    assert (slowed["verdict"] == "slower").mean() >= 0.9
    assert slowed["sure"].mean() >= 0.75
    assert slowed["ratio"].median() == pytest.approx(1 / 1.02, abs=0.003)
    assert called(others).mean() <= 0.05
    for run, table in zip(runs, tables, strict=False):
        slower = compare.Comparison(run, runs[5], table).slower(0.01)
        assert set(slower["kernel"]) == set(SLOWED)
    unsure = compare.Comparison(runs[0], runs[5], tables[0].assign(sure=False))
    assert unsure.slower(0.01).empty  # one in twenty of the same code is called slower too


@pytest.mark.parametrize("sd", [(0.001, 0.001), (0.001, 0.003)])
@pytest.mark.parametrize("processes", [(3, 3), (3, 5), (5, 5)])
def test_the_interval_between_runs_covers_their_quotient(sd, processes):
    """Of runs whose processes differ by `sd` in the logarithm, and whose times differ by 2 %."""
    random = np.random.default_rng(3)

    def processes_of(of, count):
        levels = random.normal(0, of, (3000, count, 1))
        return np.exp(levels + random.normal(0, 0.0005, (3000, count, 8)))

    firsts, seconds = map(processes_of, sd, processes)
    for share, least, most in ((0.95, 0.945, 0.99), (0.999, 0.997, 1)):
        intervals = [between_runs(1.02 * a, b, share) for a, b in zip(firsts, seconds, strict=True)]
        assert least <= np.mean([low <= 1.02 <= high for _, low, high in intervals]) <= most


def test_two_runs_of_known_values():
    # by hand: log means 1 and 0, variances of the means 1/3 and 0, so two degrees of freedom
    spread = np.exp([[0], [1], [2]])
    half = 2.4841  # t is 4.3027 (tables)
    ends = np.log(between_runs(spread, [[1], [1], [1]]))
    assert ends.tolist() == pytest.approx([1, 1 - half, 1 + half], abs=1e-4)
    assert between_runs([[2]], [[1], [1]]) == (2, 0, math.inf)
    assert between_runs([[2], [2]], [[1], [1]]) == (2, 2, 2)
    with pytest.raises(ValueError, match="no processes"):
        between_runs([], [[1]])


def test_half_of_a_difference_is_that_of_both_runs():
    runs_of_three = np.exp([[0], [1], [2]]), [[1], [1], [1.5]]
    halves = [
        (math.log(high / value), 2) for value, _, high in map(between_processes, runs_of_three)
    ]
    ratio, _, high = between_runs(*runs_of_three, 0.99)
    assert half_of_difference(*halves, 0.99) == pytest.approx(math.log(high / ratio))


@pytest.mark.parametrize(
    ("first", "second", "half"),
    [
        ((0.1, 4), (0.0, 0), 0.1),
        ((0.0, 0), (0.1, 4), 0.1),
        ((0.0, 0), (0.0, 0), 0),
        ((math.inf, 0), (0.1, 4), math.inf),
    ],
)
def test_half_of_a_difference_where_one_run_is_exact_or_says_nothing(first, second, half):
    assert half_of_difference(first, second) == pytest.approx(half)


@pytest.mark.slow
def test_what_differs_by_no_more_than_runs_do_is_the_same(tmp_path):
    """Runs of the same code that differ by more than processes, with the limit of published
    ones.
    """
    alike = {"fingerprint": {"uuids": ["GPU-0"]}, **SIZES}
    group = tmp_path / "nvidia-made-up" / "default"
    folders = [
        synthetic.write(group / f"run{seed}", seed, of_run=0.01, **alike) for seed in range(4)
    ]
    synthetic.index(tmp_path)
    repeatability.write(tmp_path)
    run, other = map(Dataset.open, folders[:2])
    limits = repeatability.limits(tmp_path, run.environment, other.environment, "time_")
    assert len(limits) > 8
    assert all(0.01 < limit.half < 0.08 for limit in limits.values())
    rows = compare.changes(run, other, limits)
    assert called(compare.changes(run, other, {})).mean() > 0.3
    assert called(rows).mean() <= 0.1
    slowed = Dataset.open(
        synthetic.write(tmp_path / "slowed", 9, of_run=0.01, speed=1 / 1.2, **SIZES)
    )
    assert compare.changes(run, slowed, limits)["sure"].all()
    # one degree of freedom tells little of one case in hundreds
    little = {key: replace(limit, degrees=1) for key, limit in limits.items()}
    rows = compare.changes(run, slowed, little)
    assert set(rows["verdict"]) == {"slower"}
    assert not rows["sure"].any()


SMALL = {"problems": [(256, 256, 256)], "kernels": ("03_shared_tile", "cublas"), "processes": 3}


@pytest.fixture
def ladder_compare(capsys):
    """Runs the command; its exit code and what it says."""

    def run(*arguments):
        code = 0
        try:
            command.main(["compare", *map(str, arguments)])
        except SystemExit as left:
            code = left.code
        return code, "".join(capsys.readouterr())

    return run


def test_the_environments_come_first(tmp_path, ladder_compare):
    before = synthetic.write(tmp_path / "a" / "gpu", **SMALL)
    other = {"fingerprint": {"driver": "2"}, "peaks": {"fp32_tflops": 60.0}}
    after = synthetic.write(tmp_path / "b" / "gpu", **SMALL, **other)
    resources = after / "resources.csv"
    resources.write_text(
        resources.read_text().replace("03_shared_tile BM", "anew 03_shared_tile BM")
    )
    file, figure = tmp_path / "c.json", tmp_path / "c"
    _, output = ladder_compare(before, after, "--json", file, "--figure", figure)
    assert output.index("fingerprint.driver: 1 -> 2") < output.index("Of ")
    assert "peaks" not in output  # what was measured always differs
    assert "No verdict is sure: nobody knows how far runs of the same code differ there" in output
    (comparison,) = json.loads(file.read_text())
    assert comparison["environment"] == {"fingerprint.driver": ["1", "2"]}
    for row in comparison["changes"]:
        assert (row["verdict"], row["ratio"]) == (verdicts.SAME, 1)
        assert row["binary"] == (None if row["kernel"] == "cublas" else "another")
    assert all(figure.with_suffix(suffix).exists() for suffix in (".svg", ".png"))


def test_a_nightly_run_fails_where_something_is_slower(tmp_path, ladder_compare):
    made = {**SMALL, "of_run": 0.002}
    nights = [
        synthetic.write(tmp_path / f"night{seed}" / "gpu", seed, **made).parent for seed in range(3)
    ]
    last = synthetic.write(
        tmp_path / "b" / "gpu", 3, **SMALL, slower={"03_shared_tile": 1.2}
    ).parent
    code, output = ladder_compare(*nights, "--", last)
    assert code == 0
    assert "slower 03_shared_tile 256 warm" in output
    assert f"How far runs of the same code differ: by 3 runs, {nights[0]}/gpu, " in output
    for asked, expected in (("10%", compare.SLOWER), ("30 %", 0), ("0.02", 2)):
        code, output = ladder_compare(*nights, "--", last, "--fail-if-slower", asked)
        assert code == expected
    assert "got '0.02'; expected per cent, such as 2%" in output
    file = tmp_path / "c.json"
    faster = (last, *nights[1:], "--", nights[0])
    assert ladder_compare(*faster, "--fail-if-slower", "0.1%", "--json", file)[0] == 0
    assert json.loads(file.read_text())[0]["nights"][0] == f"{last}/gpu"


def test_a_busy_night_is_to_be_measured_again(tmp_path, ladder_compare):
    """It is neither green nor red; what was measured undisturbed is red all the same."""
    sizes = {**SMALL, "problems": LARGE[:2], "of_run": 0.002}
    nights = [synthetic.write(tmp_path / f"night{seed}", seed, **sizes) for seed in range(4)]
    busy = synthetic.write(tmp_path / "busy", 4, **sizes, busy=1024)
    slowed = synthetic.write(
        tmp_path / "slowed", 5, **sizes, busy=1024, slower={"03_shared_tile": 1.2}
    )
    again = (
        "  Measure {} again while nothing else runs: the marks of its rows leave them open (4 "
        "disturbed)\n"
    )
    for a, b, code, said in (
        (nights[:3], nights[3], 0, ""),
        (nights[:3], busy, MEASURE_AGAIN, again.format("B")),
        ([*nights[:2], busy], nights[3], MEASURE_AGAIN, again.format("A")),
        (nights[:3], slowed, compare.SLOWER, "slower 03_shared_tile 2048 warm"),
    ):
        ended, output = ladder_compare(*a, "--", b, "--fail-if-slower", "1%")
        assert ended == code
        assert said in output
        assert ("measure again" in output) == (code != 0)
        assert "slower 03_shared_tile 1024" not in output


def test_what_throttles_where_it_did_not_before_is_slower_and_says_why(tmp_path, ladder_compare):
    before = synthetic.write(tmp_path / "a", **SMALL)
    after = synthetic.write(
        tmp_path / "b", 1, **SMALL, slower={"03_shared_tile": 1.2}, throttled=256
    )
    _, output = ladder_compare(before, after)
    assert re.search(r"slower\? 03_shared_tile 256 warm.*; only B was throttled\n", output)


def test_two_per_cent_are_found_on_a_machine_of_ones_own(tmp_path):
    """Where nothing is published: with limits of three nights."""
    made = {**THREE, "of_run": 0.001}
    nights = [synthetic.write(tmp_path / f"night{seed}", seed, **made) for seed in range(3)]
    slowed = synthetic.write(tmp_path / "slowed", 7, slower=dict.fromkeys(SLOWED, 1.02), **made)
    same = synthetic.write(tmp_path / "same", 8, **made)
    (comparison,) = compare.compare([*nights, slowed], tmp_path)
    assert comparison.rows["limit"].notna().all()
    slower = comparison.slower(0.01)
    assert set(slower["kernel"]) == set(SLOWED)
    assert len(slower) >= 0.75 * comparison.rows["kernel"].isin(SLOWED).sum()
    (unchanged,) = compare.compare([*nights, same], tmp_path)
    assert unchanged.slower(0.0).empty


def test_nothing_is_sure_where_runs_of_the_same_code_differ(tmp_path):
    nights = [
        synthetic.write(tmp_path / f"noisy{seed}", seed, of_run=0.03, **THREE) for seed in range(4)
    ]
    (unsteady,) = compare.compare(nights, tmp_path)
    assert not unsteady.rows["sure"].any()
    assert (unsteady.rows["limit"] > 1.04).all()


def test_limits_of_nights_have_two_degrees_for_each_finalist_of_three_nights(tmp_path):
    """Of 11 finalists beside the reference, each kernel's best and its neighbor."""
    folders = [
        synthetic.write(tmp_path / f"{seed}", seed, of_run=0.001, **THREE) for seed in range(4)
    ]
    *nights, night = map(Dataset.open, folders)
    limits = repeatability.of_nights(nights, night)
    assert {limit.degrees for key, limit in limits.items() if key[2] == "warm"} == {2 * 11}


def test_nights_on_several_machines_have_the_limits_of_machines(tmp_path):
    def night(seed, machine):
        made = {**SMALL, "of_run": 0.003, "fingerprint": {"uuids": [machine]}}
        return Dataset.open(synthetic.write(tmp_path / f"{seed}", seed, **made))

    *nights, other = [night(seed, f"GPU-{seed}") for seed in range(4)]
    assert {limit.degrees for limit in repeatability.of_nights(nights, other).values()} == {2}
    # none of these machines was measured twice
    assert repeatability.of_nights(nights, night(9, "GPU-2")) == {}


def test_a_night_without_limits_is_not_green(tmp_path, ladder_compare):
    before = synthetic.write(tmp_path / "a", **SMALL)
    after = synthetic.write(tmp_path / "b", 1, **SMALL, slower={"03_shared_tile": 1.2})
    unconfirmed = synthetic.write(tmp_path / "c", **SMALL | {"processes": 0})
    strict = ("--fail-if-slower", "2%")
    for arguments, code, said in (
        ((before, after), 0, "  slower? 03_shared_tile 256"),
        (
            (before, after, *strict),
            1,
            "Compare with 3 or more runs of your own: ladder compare A1 A2 A3 -- B",
        ),
        (
            (before, before, after),
            1,
            "got 3 folders; expected A and B, or 3 or more runs of the same code and B",
        ),
        ((unconfirmed, after), 0, "2 not confirmed"),
        ((unconfirmed, after, *strict), 1, "not both have a confirmation; expected two that have"),
    ):
        ended, output = ladder_compare(*arguments)
        assert ended == code
        assert said in output


@pytest.mark.parametrize("processes", [3, 0])
def test_a_night_that_measured_nothing_is_not_green(tmp_path, ladder_compare, processes):
    folder = synthetic.write(tmp_path / "a", **SMALL | {"processes": processes})
    copied = shutil.copytree(folder, tmp_path / "b")
    others = [synthetic.write(tmp_path / f"{seed}", seed, **SMALL) for seed in (1, 2)]
    for first, last in (([folder], folder), ([folder], copied), ([*others, folder], copied)):
        code, output = ladder_compare(*first, last)
        assert code == NOTHING_MEASURED == 4
        assert f"{folder} and {last}: hold the same measurements; expected two runs" in output


def test_a_night_that_only_confirmed_again_is_another_run(tmp_path):
    folder = synthetic.write(tmp_path / "a", **SMALL)
    again = shutil.copytree(folder, tmp_path / "b")
    path = again / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [row | {"time": "2026-01-02"} for row in rows], session)
    assert compare.compare([folder, again], tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"resources\.csv: not a table: .*No such file"),
        ("", r"resources\.csv: not a table: "),
        (
            "kernel,element_type\na,b\n",
            r"resources\.csv: got the columns kernel, element_type; expected configuration, "
            r"status, sha256",
        ),
    ],
)
def test_a_dataset_without_what_the_compiler_said_is_named(tmp_path, text, message):
    path = synthetic.write(tmp_path / "a", 1) / "resources.csv"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(InputError, match=message):
        Dataset.open(path.parent)


def test_the_datasets_of_two_folders_are_matched_by_name(tmp_path):
    for name in ("a/gpu", "a/cpu", "b/cpu", "b/other", "c/alone", "d"):
        written(tmp_path / name / "environment.json", "{}")
    a, b, c, d = (tmp_path / name for name in "abcd")
    assert compare.matching_datasets([a, b]) == [[a / "cpu", b / "cpu"]]
    assert compare.matching_datasets([c, d]) == [[c / "alone", d]]
    assert compare.matching_datasets([a, a, b]) == [[a / "cpu", a / "cpu", b / "cpu"]]
    with pytest.raises(
        InputError,
        match="have the datasets cpu, gpu and alone; expected one in each, or some of the same name",
    ):
        compare.matching_datasets([a, c])
    with pytest.raises(InputError, match=r"d: no environment\.json and samples"):
        Dataset.open(d)
    with pytest.raises(InputError, match="nothing: no environment"):
        Dataset.open(tmp_path / "nothing")


def test_the_figure_says_what_changed_in_every_cell(tmp_path):
    before = synthetic.write(tmp_path / "a", **SMALL)
    after = synthetic.write(tmp_path / "b", 1, **SMALL, slower={"03_shared_tile": 1.25})
    (comparison,) = compare.compare([before, after], tmp_path)
    dataset = Dataset.open(before)
    data = View(dataset.tables(DRAWN_FROM), dataset.environment, "warm")
    style(data.width)
    warm, cold = draw_changes(data, comparison.rows, "B").axes
    assert [axes.get_title(loc="left") for axes in (warm, cold)] == ["warm", "cold"]
    ratios = comparison.rows.query("state == 'warm'").set_index("kernel")["ratio"]
    slower, same = (f"{100 * (ratios[kernel] - 1):+.1f}" for kernel in SMALL["kernels"])
    weights = {text.get_text(): text.get_fontweight() for text in warm.texts}
    assert weights == {f"{slower}?": "bold", same: "normal"}
