"""Two datasets are told apart where they differ, and only there."""

import json
import math
import re
import shutil
from functools import cache
from itertools import pairwise
from pathlib import Path

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
SIZES = {"problems": LARGE, "kernels": KERNELS, "processes": 5}
THREE = SIZES | {"problems": LARGE[:3]}
SMALL = {"problems": [(256, 256, 256)], "kernels": ("03_shared_tile", "cublas"), "processes": 3}
SLOWER = {"slower": {"03_shared_tile": 1.2}}


@pytest.fixture
def write(tmp_path):
    """Writes the dataset of a small run into a folder of its own, and returns it."""

    def write(name, seed=0, **given):
        return synthetic.write(tmp_path / name, seed, **SMALL | given)

    return write


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
def test_identical_code_is_called_different_in_one_of_twenty_at_most(write):
    runs = [Dataset.open(write(f"run{seed}", seed, **SIZES)) for seed in range(5)]
    rows = pd.concat([compare.changes(*pair, {}) for pair in pairwise(runs)])
    assert len(rows) > 150
    assert called(rows).mean() <= 0.05
    assert not rows["sure"].any()


@pytest.mark.parametrize("sd", [(0.001, 0.001), (0.001, 0.003)])
@pytest.mark.parametrize("processes", [(3, 5), (5, 5)])
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
def test_what_differs_by_no_more_than_runs_do_is_the_same(tmp_path, write):
    """Runs of the same code that differ by more than processes, with the limit of published
    ones.
    """
    sizes = SIZES | {"fingerprint": {"uuids": ["GPU-0"]}, "of_run": 0.01}
    group = "nvidia-made-up/default/run"
    folders = [write(f"{group}{seed}", seed, **sizes) for seed in range(4)]
    synthetic.index(tmp_path)
    repeatability.write(tmp_path)
    run, other = map(Dataset.open, folders[:2])
    limits = repeatability.limits(tmp_path, run.environment, other.environment, "time_")
    assert len(limits) > 8
    assert all(0.01 < limit.half < 0.08 for limit in limits.values())
    assert called(compare.changes(run, other, {})).mean() > 0.3
    assert called(compare.changes(run, other, limits)).mean() <= 0.1
    slowed = Dataset.open(write("slowed", 9, **sizes, speed=1 / 1.2))
    assert compare.changes(run, slowed, limits)["sure"].all()


@pytest.fixture
def ladder_compare(capsys, monkeypatch):
    """Runs the command; its exit code and what it says. Each dataset is opened once."""
    monkeypatch.setattr(Dataset, "open", cache(Dataset.open))

    def run(*arguments):
        code = 0
        try:
            command.main(["compare", *map(str, arguments)])
        except SystemExit as left:
            code = left.code
        return code, "".join(capsys.readouterr())

    return run


def test_the_environments_come_first(tmp_path, write, ladder_compare):
    other = {"fingerprint": {"driver": "2"}, "peaks": {"fp32_tflops": 60.0}}
    before, after = write("a/gpu"), write("b/gpu", **other)
    resources = after / "resources.csv"
    resources.write_text(
        resources.read_text().replace("03_shared_tile BM", "anew 03_shared_tile BM")
    )
    file, figure = tmp_path / "c.json", tmp_path / "c"
    _, output = ladder_compare(before, after, "--json", file, "--figure", figure)
    assert output.index("fingerprint.driver: 1 -> 2") < output.index("Of ")
    assert "peaks" not in output  # what was measured always differs
    assert (
        "No verdict is sure: how far runs of the same code differ on this device is not known"
        in output
    )
    (comparison,) = json.loads(file.read_text())
    assert comparison["environment"] == {"fingerprint.driver": ["1", "2"]}
    for row in comparison["changes"]:
        assert (row["verdict"], row["ratio"]) == (verdicts.SAME, 1)
        assert row["binary"] == (None if row["kernel"] == "cublas" else "another")
    assert all(figure.with_suffix(suffix).exists() for suffix in (".svg", ".png"))


def test_a_nightly_run_fails_where_something_is_slower(tmp_path, write, ladder_compare):
    nights = [write(f"night{seed}/gpu", seed, of_run=0.002).parent for seed in range(3)]
    last = write("b/gpu", 3, **SLOWER).parent
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
    _, output = ladder_compare(*faster, "--json", "-")
    assert json.loads(output[: output.index("\n]\n") + 2]) == json.loads(file.read_text())
    assert not Path("-").exists()


def test_a_busy_night_is_to_be_measured_again(write, ladder_compare):
    """It is neither green nor red; what was measured undisturbed is red all the same."""
    sizes = {"problems": LARGE[:2], "of_run": 0.002}
    nights = [write(f"night{seed}", seed, **sizes) for seed in range(4)]
    busy = write("busy", 4, **sizes, busy=1024)
    slowed = write("slowed", 5, **sizes, busy=1024, **SLOWER)
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


def test_what_throttles_where_it_did_not_before_is_slower_and_says_why(write, ladder_compare):
    _, output = ladder_compare(write("a"), write("b", 1, **SLOWER, throttled=256))
    assert re.search(r"slower\? 03_shared_tile 256 warm.*; only B was throttled\n", output)


def test_two_per_cent_are_found_on_a_machine_of_ones_own(tmp_path, write):
    """Where nothing is published: with limits of three nights."""
    made = THREE | {"of_run": 0.001}
    nights = [write(f"night{seed}", seed, **made) for seed in range(3)]
    slowed = write("slowed", 7, **made, slower=dict.fromkeys(SLOWED, 1.02))
    (comparison,) = compare.compare([*nights, slowed], tmp_path)
    assert comparison.rows["limit"].notna().all()
    slower = comparison.slower(0.01)
    assert set(slower["kernel"]) == set(SLOWED)
    assert len(slower) >= 0.75 * comparison.rows["kernel"].isin(SLOWED).sum()
    (unchanged,) = compare.compare([*nights, write("same", 8, **made)], tmp_path)
    assert unchanged.slower(0.0).empty


def test_nothing_is_sure_where_runs_of_the_same_code_differ(tmp_path, write):
    nights = [write(f"noisy{seed}", seed, **THREE, of_run=0.03) for seed in range(4)]
    (unsteady,) = compare.compare(nights, tmp_path)
    assert not unsteady.rows["sure"].any()
    assert (unsteady.rows["limit"] > 1.04).all()


@pytest.mark.parametrize(
    ("machines", "degrees"),
    [
        ("aaaa", {2 * 2}),  # two for each of two finalists beside the reference
        ("abcd", {2}),
        ("abcc", set()),  # none of these machines was measured twice
    ],
)
def test_limits_of_nights_are_of_one_machine_or_of_several(write, machines, degrees):
    *nights, other = [
        Dataset.open(write(f"{seed}", seed, of_run=0.003, fingerprint={"uuids": [f"GPU-{name}"]}))
        for seed, name in enumerate(machines)
    ]
    limits = repeatability.of_nights(nights, other)
    assert {limit.degrees for key, limit in limits.items() if key[2] == "warm"} == degrees


def test_a_night_without_limits_is_not_green(write, ladder_compare):
    before, after = write("a"), write("b", 1, **SLOWER)
    unconfirmed = write("c", processes=0)
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
def test_a_night_that_measured_nothing_is_not_green(tmp_path, write, ladder_compare, processes):
    folder = write("a", processes=processes)
    copied = shutil.copytree(folder, tmp_path / "b")
    others = [write(f"{seed}", seed) for seed in (1, 2)]
    for first, last in (([folder], folder), ([folder], copied), ([*others, folder], copied)):
        code, output = ladder_compare(*first, last)
        assert code == NOTHING_MEASURED == 4
        assert f"{folder} and {last}: hold the same measurements; expected two runs" in output


def test_a_night_that_only_confirmed_again_is_another_run(tmp_path, write):
    again = shutil.copytree(write("a"), tmp_path / "b")
    path = again / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [row | {"time": "2026-01-02"} for row in rows], session)
    assert compare.compare([tmp_path / "a", again], tmp_path)


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
def test_a_dataset_without_what_the_compiler_said_is_named(write, text, message):
    path = write("a") / "resources.csv"
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
    for folder in (d, tmp_path / "nothing"):
        with pytest.raises(InputError, match=rf"{folder}: no environment\.json and samples"):
            Dataset.open(folder)


def test_the_figure_says_what_changed_in_every_cell(tmp_path, write):
    before, after = write("a"), write("b", 1, slower={"03_shared_tile": 1.25})
    (comparison,) = compare.compare([before, after], tmp_path)
    dataset = Dataset.open(before)
    data = View(dataset.tables(DRAWN_FROM), dataset.environment, "warm")
    style()
    warm, cold = draw_changes(data, comparison.rows, "B").axes
    assert [axes.get_title(loc="left") for axes in (warm, cold)] == ["warm", "cold"]
    ratios = comparison.rows.query("state == 'warm'").set_index("kernel")["ratio"]
    slower, same = (f"{100 * (ratios[kernel] - 1):+.1f}" for kernel in SMALL["kernels"])
    weights = {text.get_text(): text.get_fontweight() for text in warm.texts}
    assert weights == {f"{slower}?": "bold", same: "normal"}
