"""Two datasets are told apart where they differ, and only there."""

import json
import math
import re
import shutil
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
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
LARGE = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (2049, 2047, 2051), (8192, 128, 8192), (512, 512, 16384)]
SLOWED = ("05_register_tile", "10_block_tile_128", "16_thin_edge")
SIZES = {"problems": LARGE, "kernels": KERNELS}
THREE = {"problems": LARGE[:3], "kernels": KERNELS}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Six runs of the same code, of which the last has three kernels slowed by 2 %."""
    folder = tmp_path_factory.mktemp("runs")
    written = [synthetic.write(folder / f"run{seed}", seed, **SIZES) for seed in range(5)]
    written.append(synthetic.write(folder / "slowed", 5, slower=dict.fromkeys(SLOWED, 1.02), **SIZES))
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
    changes = [compare.changes(before, after, {}) for before, after in pairwise(runs[:5])]
    assert sum(map(len, changes)) > 150
    assert sum(called(rows).sum() for rows in changes) <= 0.05 * sum(map(len, changes))
    assert not any(rows["sure"].any() for rows in changes)


@pytest.mark.slow
def test_two_per_cent_are_found_and_nothing_else_is(runs):
    limits = repeatability.of_nights(runs[:4], runs[5])
    rows = [compare.changes(run, runs[5], limits) for run in runs[:4]]
    slowed = [each[each["kernel"].isin(SLOWED)] for each in rows]
    others = [each[~each["kernel"].isin(SLOWED)] for each in rows]
    count = sum(map(len, slowed))
    assert count > 70
    assert sum((each["verdict"] == "slower").sum() for each in slowed) >= 0.9 * count
    assert sum(each["sure"].sum() for each in slowed) >= 0.75 * count
    assert np.median([ratio for each in slowed for ratio in each["ratio"]]) == pytest.approx(1 / 1.02, abs=0.003)
    assert sum(called(each).sum() for each in others) <= 0.05 * sum(map(len, others))
    for run in runs[:4]:
        slower = compare.Comparison(run, runs[5], compare.changes(run, runs[5], limits)).slower(0.01)
        assert set(slower["kernel"]) == set(SLOWED)
    unsure = compare.Comparison(runs[0], runs[5], rows[0].assign(sure=False))
    assert unsure.slower(0.01).empty  # one in twenty of the same code is called slower too


@pytest.mark.parametrize("sd", [(0.001, 0.001), (0.001, 0.003)])
@pytest.mark.parametrize("processes", [(3, 3), (3, 5), (5, 5)])
def test_the_interval_between_runs_covers_their_quotient(sd, processes):
    random, trials = np.random.default_rng(3), 3000
    firsts, seconds = (
        np.exp(random.normal(0, of, (trials, count, 1)) + random.normal(0, 0.0005, (trials, count, 8)))
        for of, count in zip(sd, processes, strict=True)
    )
    intervals = [between_runs(1.02 * first, second) for first, second in zip(firsts, seconds, strict=True)]
    assert 0.945 <= np.mean([low <= 1.02 <= high for _, low, high in intervals]) <= 0.99
    wide = [between_runs(1.02 * first, second, 0.999) for first, second in zip(firsts, seconds, strict=True)]
    assert np.mean([low <= 1.02 <= high for _, low, high in wide]) > 0.997


def test_two_runs_of_known_values():
    # by hand: log means 1 and 0, variances of the means 1/3 and 0, so two degrees of freedom; t is 4.3027 (tables)
    ratio, low, high = between_runs(np.exp([[0], [1], [2]]), [[1], [1], [1]])
    assert math.log(ratio) == pytest.approx(1)
    assert np.log([low, high]).tolist() == pytest.approx([1 - 2.4841, 1 + 2.4841], abs=1e-4)
    two = np.exp([[0], [1], [2]]), [[1], [1], [1.5]]
    halves = [(math.log(high / value), 2) for value, _, high in map(between_processes, two)]
    ratio, _, high = between_runs(*two, 0.99)  # from both intervals too
    assert half_of_difference(*halves, 0.99) == pytest.approx(math.log(high / ratio))
    exact = half_of_difference((0.1, 4), (0.0, 0)), half_of_difference((0.0, 0), (0.1, 4))
    assert exact == pytest.approx((0.1, 0.1))
    assert half_of_difference((0.0, 0), (0.0, 0)) == 0
    assert half_of_difference((math.inf, 0), (0.1, 4)) == math.inf
    assert between_runs([[2]], [[1], [1]]) == (2, 0, math.inf)
    assert between_runs([[2], [2]], [[1], [1]]) == (2, 2, 2)
    with pytest.raises(ValueError, match="no processes"):
        between_runs([], [[1]])


@pytest.mark.slow
def test_what_differs_by_no_more_than_runs_do_is_the_same(tmp_path):
    """Runs of the same code that differ by more than processes: with the limit of published ones they are the same."""
    alike = {"fingerprint": {"uuids": ["GPU-0"]}, **SIZES}
    group = tmp_path / "nvidia-made-up" / "default"
    folders = [synthetic.write(group / f"run{seed}", seed, of_run=0.01, **alike) for seed in range(4)]
    synthetic.index(tmp_path)
    repeatability.write(tmp_path)
    run, other = map(Dataset.open, folders[:2])
    without = compare.changes(run, other, {})
    limits = repeatability.limits(tmp_path, run.environment, other.environment, "time_")
    assert len(limits) > 8
    assert all(0.01 < limit.half < 0.08 for limit in limits.values())
    with_limits = compare.changes(run, other, limits)
    assert called(without).mean() > 0.3
    assert called(with_limits).mean() <= 0.1
    for row in with_limits.itertuples():
        tf32 = row.kernel == "cublas_tf32"
        assert row.limit == pytest.approx(math.exp(limits["float32", row.problem, row.state, tf32, tf32].half))
    slowed = Dataset.open(synthetic.write(tmp_path / "slowed", 9, of_run=0.01, speed=1 / 1.2, **SIZES))
    assert compare.changes(run, slowed, limits)["sure"].all()
    # one degree of freedom tells little of one case in hundreds
    changes = compare.changes(run, slowed, {key: replace(limit, degrees=1) for key, limit in limits.items()})
    assert (changes["verdict"] == "slower").all()
    assert not changes["sure"].any()


@pytest.mark.parametrize(
    ("tied", "chosen"),
    [(("", ""), ("a", "b")), (("b", ""), ("b", "b")), (("", "a"), ("a", "a")), (("c", "c"), ("c", "c")), (("c", ""), ("a", "b"))],
)
def test_which_of_the_tied_is_best_is_no_change(tied, chosen):
    row = {"configuration": "a", "configuration_other": "b", "tied_with": tied[0], "tied_with_other": tied[1]}
    assert compare._same_configuration(row) == chosen


SMALL = {"problems": [(256, 256, 256)], "kernels": ("03_shared_tile", "cublas"), "processes": 3}


def test_the_environments_come_first(tmp_path, capsys):
    before = synthetic.write(tmp_path / "a" / "gpu", **SMALL)
    after = synthetic.write(tmp_path / "b" / "gpu", **SMALL, fingerprint={"driver": "2"}, peaks={"fp32_tflops": 60.0})
    resources = after / "resources.csv"
    resources.write_text(resources.read_text().replace("03_shared_tile BM", "anew 03_shared_tile BM"))
    command.main(["compare", str(before), str(after), "--json", str(tmp_path / "c.json"), "--figure", str(tmp_path / "c")])
    output = capsys.readouterr().out
    assert output.index("fingerprint.driver: 1 -> 2") < output.index("Of ")
    assert "peaks" not in output  # what was measured always differs
    assert "No verdict is sure: nobody knows how far runs of the same code differ there" in output
    (comparison,) = json.loads((tmp_path / "c.json").read_text())
    assert comparison["environment"] == {"fingerprint.driver": ["1", "2"]}
    assert {row["verdict"] for row in comparison["changes"]} == {verdicts.SAME}
    assert {row["ratio"] for row in comparison["changes"]} == {1}
    assert {(row["kernel"], row["binary"]) for row in comparison["changes"]} == {("03_shared_tile", "another"), ("cublas", None)}
    assert all((tmp_path / f"c.{suffix}").exists() for suffix in ("svg", "png"))


def test_a_nightly_run_fails_where_something_is_slower(tmp_path, capsys):
    nights = [synthetic.write(tmp_path / f"night{seed}" / "gpu", seed, **SMALL, of_run=0.002).parent for seed in range(3)]
    last = synthetic.write(tmp_path / "b" / "gpu", 3, **SMALL, slower={"03_shared_tile": 1.2}).parent
    folders = [*map(str, nights), "--", str(last)]
    command.main(["compare", *folders])
    output = capsys.readouterr().out
    assert "slower 03_shared_tile 256 warm" in output
    assert f"How far runs of the same code differ: by 3 runs, {nights[0]}/gpu, " in output
    with pytest.raises(SystemExit) as left:
        command.main(["compare", *folders, "--fail-if-slower", "10%"])
    assert left.value.code == compare.SLOWER == 3
    command.main(["compare", *folders, "--fail-if-slower", "30 %"])
    faster = [str(last), *map(str, nights[1:]), "--", str(nights[0])]
    command.main(["compare", *faster, "--fail-if-slower", "0.1%", "--json", str(tmp_path / "c.json")])
    assert json.loads((tmp_path / "c.json").read_text())[0]["nights"][0] == f"{last}/gpu"
    with pytest.raises(SystemExit, match="2"):
        command.main(["compare", *folders, "--fail-if-slower", "0.02"])
    assert "got '0.02'; expected per cent, such as 2%" in capsys.readouterr().err


def test_a_busy_night_is_to_be_measured_again(tmp_path, capsys):
    """It is neither green nor red, whatever it has measured; what was measured undisturbed is red all the same."""
    sizes = {"problems": LARGE[:2], "kernels": SMALL["kernels"], "processes": 3, "of_run": 0.002}
    nights = [synthetic.write(tmp_path / f"night{seed}", seed, **sizes) for seed in range(4)]
    busy = synthetic.write(tmp_path / "busy", 4, **sizes, busy=1024)
    slowed = synthetic.write(tmp_path / "slowed", 5, **sizes, busy=1024, slower={"03_shared_tile": 1.2})

    def compared(*folders, code):
        with pytest.raises(SystemExit) as left:
            command.main(["compare", *map(str, folders[:-1]), "--", str(folders[-1]), "--fail-if-slower", "1%"])
            sys.exit(0)
        assert left.value.code == code
        return capsys.readouterr().out

    again = "  Measure {} again while nothing else runs: the marks of its rows leave them open (4 disturbed)\n"
    assert "measure again" not in compared(*nights, code=0).lower()
    output = compared(*nights[:3], busy, code=MEASURE_AGAIN)
    assert "B against A: 4 measure again, 3 not distinguishable." in output
    assert again.format("B") in output
    assert again.format("A") in compared(*nights[:2], busy, nights[3], code=MEASURE_AGAIN)
    output = compared(*nights[:3], slowed, code=compare.SLOWER)
    assert "slower 03_shared_tile 2048 warm" in output
    assert "03_shared_tile 1024" not in output


def test_what_throttles_where_it_did_not_before_is_slower_and_says_why(tmp_path, capsys):
    before = synthetic.write(tmp_path / "a", **SMALL)
    after = synthetic.write(tmp_path / "b", 1, **SMALL, slower={"03_shared_tile": 1.2}, throttled=256)
    command.main(["compare", str(before), str(after)])
    assert re.search(r"slower\? 03_shared_tile 256 warm.*; only B was throttled\n", capsys.readouterr().out)


def test_two_per_cent_are_found_on_a_machine_of_ones_own(tmp_path):
    """Where nothing is published: with limits of three nights, as `test_two_per_cent_are_found_and_nothing_else_is` has them."""
    made = {"of_run": 0.001, **THREE}
    nights = [synthetic.write(tmp_path / f"night{seed}", seed, **made) for seed in range(3)]
    slowed = synthetic.write(tmp_path / "slowed", 7, slower=dict.fromkeys(SLOWED, 1.02), **made)
    same = synthetic.write(tmp_path / "same", 8, **made)
    (comparison,) = compare.compare([*nights, slowed], tmp_path)
    assert comparison.rows["limit"].notna().all()
    assert set(comparison.slower(0.01)["kernel"]) == set(SLOWED)
    assert len(comparison.slower(0.01)) >= 0.75 * len(comparison.rows[comparison.rows["kernel"].isin(SLOWED)])
    (unchanged,) = compare.compare([*nights, same], tmp_path)
    assert unchanged.slower(0.0).empty


def test_limits_of_nights_have_two_degrees_for_each_finalist_of_three_nights(tmp_path):
    """Of 11 finalists beside the reference, each kernel's best and its neighbor."""
    *nights, night = (Dataset.open(synthetic.write(tmp_path / f"{seed}", seed, of_run=0.001, **THREE)) for seed in range(4))
    limits = repeatability.of_nights(nights, night)
    assert {limit.degrees for (_, _, state, *_), limit in limits.items() if state == "warm"} == {2 * 11}


def test_nothing_is_sure_where_runs_of_the_same_code_differ(tmp_path):
    nights = [synthetic.write(tmp_path / f"noisy{seed}", seed, of_run=0.03, **THREE) for seed in range(4)]
    (unsteady,) = compare.compare(nights, tmp_path)
    assert not unsteady.rows["sure"].any()
    assert (unsteady.rows["limit"] > 1.04).all()


def test_nights_on_several_machines_have_the_limits_of_machines(tmp_path):
    def night(number):
        folder = synthetic.write(tmp_path / f"{number}", number, of_run=0.003, fingerprint={"uuids": [f"GPU-{number}"]}, **SMALL)
        return Dataset.open(folder)

    *nights, b = [night(number) for number in range(4)]
    assert {limit.degrees for limit in repeatability.of_nights(nights, b).values()} == {2}
    again = Dataset.open(synthetic.write(tmp_path / "again", 9, of_run=0.003, fingerprint={"uuids": ["GPU-2"]}, **SMALL))
    assert repeatability.of_nights(nights, again) == {}  # none of these machines was measured twice


def test_a_night_without_limits_is_not_green(tmp_path, capsys):
    before = synthetic.write(tmp_path / "a", **SMALL)
    after = synthetic.write(tmp_path / "b", 1, **SMALL, slower={"03_shared_tile": 1.2})
    command.main(["compare", str(before), str(after)])
    assert "  slower? 03_shared_tile 256" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        command.main(["compare", str(before), str(after), "--fail-if-slower", "2%"])
    assert left.value.code == 1
    assert "Compare with 3 or more runs of your own: ladder compare A1 A2 A3 -- B" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="1"):
        command.main(["compare", str(before), str(before), str(after)])
    assert "got 3 folders; expected A and B, or 3 or more runs of the same code and B" in capsys.readouterr().err


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_night_that_measured_nothing_is_not_green(tmp_path, capsys, confirmed):
    folder = synthetic.write(tmp_path / "a", **SMALL | ({} if confirmed else {"processes": 0}))
    copied = shutil.copytree(folder, tmp_path / "b")
    for same in (folder, copied):
        with pytest.raises(SystemExit) as left:
            command.main(["compare", str(folder), str(same)])
        assert left.value.code == NOTHING_MEASURED == 4
        assert f"{folder} and {same}: hold the same measurements; expected two runs" in capsys.readouterr().err
    others = [synthetic.write(tmp_path / f"{seed}", seed, **SMALL) for seed in (1, 2)]
    with pytest.raises(SystemExit, match="4"):
        command.main(["compare", *map(str, [*others, folder, copied])])


def test_a_night_that_only_confirmed_again_is_another_run(tmp_path):
    folder = synthetic.write(tmp_path / "a", **SMALL)
    again = shutil.copytree(folder, tmp_path / "b")
    path = again / "confirmed.parquet"
    rows, session = samples.read(path)
    samples.write(path, [row | {"time": "2026-01-02"} for row in rows], session)
    assert compare.compare([folder, again], tmp_path)


def test_without_a_confirmation_nothing_is_called_slower(tmp_path, capsys):
    before = synthetic.write(tmp_path / "a", **SMALL | {"processes": 0})
    after = synthetic.write(tmp_path / "b", 1, **SMALL, slower={"03_shared_tile": 2.0})
    command.main(["compare", str(before), str(after)])
    assert "2 not confirmed" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1"):
        command.main(["compare", str(before), str(after), "--fail-if-slower", "2%"])
    assert "not both have a confirmation; expected two that have" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"resources\.csv: not a table: .*No such file"),
        ("", r"resources\.csv: not a table: "),
        (
            "kernel,element_type\na,b\n",
            r"resources\.csv: got the columns kernel, element_type; expected configuration, status, sha256",
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
    with pytest.raises(InputError, match="have the datasets cpu, gpu and alone; expected one in each, or some of the same name"):
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
    axes = draw_changes(data, comparison.rows, "B").axes
    assert [each.get_title(loc="left") for each in axes] == ["warm", "cold"]
    rows = comparison.rows[comparison.rows["state"] == "warm"].set_index("kernel")["ratio"]
    cells = {text.get_text(): text.get_fontweight() for text in axes[0].texts}
    assert cells == {f"{100 * (rows['03_shared_tile'] - 1):+.1f}?": "bold", f"{100 * (rows['cublas'] - 1):+.1f}": "normal"}
    (image,) = axes[0].get_images()
    red, green, blue = image.get_array()[[label.get_text() for label in axes[0].get_yticklabels()].index("03 shared tile"), 0]
    assert red > blue > green
