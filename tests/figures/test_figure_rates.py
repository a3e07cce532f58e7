"""Figures of rates, times and energy: what is drawn of a made-up dataset."""

import re
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from drawn import caption, cells, changed, draw, heads, lines, made, note, rows, shown, words
from ladder.figures import draw as figures
from ladder.figures.data import MARKS, View, three
from ladder.model.kernel_file import known
from matplotlib.colors import to_hex


def test_what_is_fastest_is_told_with_what_cannot_be_told_from_it(dataset):
    best = rows(dataset)
    at = (best["state"] == "warm") & best["problem"].isin(["4096", "256x256x16384"])
    for kernels, ratio in (
        (["05_register_tile", "cublas_tf32"], [3.0, 2.9, 3.1]),
        (["03_shared_tile"], [2.85, 2.8, 2.95]),
        (["02_naive_coalesced"], [2.7, 2.6, 2.8]),
    ):
        best.loc[at & best["kernel"].isin(kernels), ["ratio", "ratio_low", "ratio_high"]] = ratio
    figure = draw(changed(dataset, best=best), "performance")
    squares, others = figure.axes
    above = {
        round(each.get_position()[0], 3): each.get_text()
        for each in squares.texts
        if each.get_position()[1] == 1.02
    }
    assert above[4096] == "05\n≈03"
    beside = {
        each.get_position()[1]: each.get_text()
        for each in others.texts
        if each.get_position()[0] == 1.01
    }
    labels = [each.get_text() for each in others.get_yticklabels()]
    assert beside[labels.index("256×256×16384")] == "05 ≈03"
    assert (
        squares.get_title(loc="left")
        == others.get_title(loc="right")
        == "fastest of rungs and cuBLAS:"
    )
    assert "≈: the intervals overlap" in caption(figure)


def test_intervals_and_marks_are_drawn(dataset):
    best = rows(dataset, state="warm", kernel="05_register_tile")
    of_squares = best[best["problem"].str.isdigit()].sort_values("m")
    figure = draw(dataset, "ratio")
    squares, others = figure.axes
    drawn = lines(squares)["05 register tile"].get_ydata()
    assert drawn == pytest.approx(100 * of_squares["ratio"].to_numpy())
    bands = [
        band.get_paths()[0].vertices[:, 1]
        for band in squares.collections
        if band.get_alpha() == 0.25 and band.get_paths()
    ]
    ends = 100 * of_squares["ratio_low"].min(), 100 * of_squares["ratio_high"].max()
    assert any((band.min(), band.max()) == pytest.approx(ends) for band in bands)
    segments = [
        each
        for bars in others.collections
        if hasattr(bars, "get_segments")
        for each in bars.get_segments()
    ]
    other = best.set_index("problem").loc["256x256x16384", ["ratio_low", "ratio_high"]]
    assert any(sorted(segment[:, 0]) == pytest.approx(list(100 * other)) for segment in segments)
    edges = {to_hex(edge) for dots in squares.collections for edge in dots.get_edgecolors()}
    assert MARKS["throttled"][1] in edges  # at 8192
    assert "edge: throttled" in words(figure)
    assert "t: throttled, the clock was held down" in note(figure)


@pytest.mark.parametrize("state", ["warm", "cold"])
def test_the_ladder_is_shown_at_one_size_with_means_over_one_set(dataset, state):
    figure = draw(dataset, "ladder", state)
    assert words(figure)[0] == f"Throughput at M = N = K = 4096 on NVIDIA Made Up, float32, {state}"
    ((count, those),) = re.findall(
        r"over the (\d+) problems that every rung has: ([^.]*)\.", note(figure)
    )
    assert (count, len(those.split(", "))) == ("10", 10)
    (axes,) = figure.axes
    assert list(cells(axes)) == [
        View(*dataset, state).nice(kernel) for kernel in shown(dataset, state)
    ]
    hatched = {
        bars.get_label() for bars in axes.containers if bars.patches[0].get_hatch() == "...."
    }
    assert ("05_register_tile" in hatched) == (state == "cold")


def test_a_row_of_the_ladder_has_its_rate_its_share_and_the_mean(dataset):
    warm = rows(dataset, state="warm", kernel="05_register_tile")
    at = warm[warm["problem"] == "4096"].iloc[0]
    (axes,) = draw(dataset, "ladder").axes
    values = [at["tflops"], 100 * at["ratio"], 100 * np.exp(np.log(warm["ratio"]).mean())]
    assert cells(axes)["05 register tile"][:3] == [three(each) for each in values]
    assert heads(axes) == ["TFLOP/s", "% of cuBLAS", "mean of 10", "over rung"]


def test_means_leave_out_what_a_rung_has_not(dataset):
    best = dataset[0]["best"].query("kernel != '10_block_tile_128' or m != 2049")
    figure = draw(changed(dataset, best=best), "ladder")
    assert "over the 9 problems that every rung has" in note(figure)
    assert "2049" not in note(figure)


def test_gains_say_what_pairs_say(dataset):
    (axes,) = draw(dataset, "ladder").axes
    assert "faster (08)" in cells(axes)["10 block tile 128"][3]
    assert re.fullmatch(r"≈ ×[01][.0-9]* \(07\)", cells(axes)["08 padded shared"][3])
    (axes,) = draw(
        changed(dataset, pairs=dataset[0]["pairs"].assign(verdict="slower")), "ladder"
    ).axes
    assert "slower (08)" in cells(axes)["10 block tile 128"][3]


def test_a_gain_is_over_the_rung_that_a_rung_builds_on(dataset, monkeypatch):
    """`pairs.csv` may compare with another one. A rung that was not measured is nobody's base."""
    (axes,) = draw(dataset, "ladder").axes
    assert cells(axes)["16 thin edge"][3] == ""  # builds on rung 13
    kernel = replace(known()["10_block_tile_128"], builds_on="05_register_tile")
    monkeypatch.setattr("ladder.figures.data.known", lambda: {**known(), kernel.name: kernel})
    (axes,) = draw(changed(dataset, pairs=dataset[0]["pairs"]), "ladder").axes
    best = rows(dataset, state="warm", problem="4096").set_index("kernel")["tflops"]
    factor, _, over = cells(axes)["10 block tile 128"][3].partition(" faster ")
    assert over == "(05)"
    assert float(factor[1:]) == pytest.approx(
        best["10_block_tile_128"] / best["05_register_tile"], rel=0.02
    )


def test_bars_have_intervals_and_those_of_tensor_cores_are_broken(dataset):
    best = rows(dataset, state="warm", problem="4096").set_index("kernel")
    (axes,) = draw(dataset, "ladder").axes
    lengths = [bar.get_width() for bar in axes.patches]
    assert lengths == pytest.approx(list(best.loc[shown(dataset, "warm"), "tflops"]))
    drawn = sorted(axes.get_lines()[3].get_xdata())
    assert drawn == pytest.approx(list(best.loc["05_register_tile", ["tflops_low", "tflops_high"]]))
    beyond = [f"{length:.3g}" for length in lengths if length > axes.get_xlim()[1]]
    assert beyond != []
    assert [text.get_text() for text in axes.texts if text.get_color() == "#ffffff"] == beyond
    assert "White cuts" in caption(axes.figure)


@pytest.mark.slow
def test_a_marked_bar_is_hatched(tmp_path):
    figure = draw(made(tmp_path / "x", problems=synthetic.SMALL, throttled=4096), "ladder")
    assert {bar.get_hatch() for bar in figure.axes[0].patches} == {"////"}
    assert "t: throttled" in note(figure)
    assert "hatched: marked" in words(figure)


def test_what_rounds_its_operands_is_context(dataset):
    data = View(*dataset, "warm")
    assert "20_tensor_cores" in data.baselines
    assert "20_tensor_cores" not in data.kernels
    drawn = lines(draw(dataset, "performance").axes[0])
    assert drawn["20 tensor cores"].get_linestyle() != "-" == drawn["16 thin edge"].get_linestyle()
    figure = draw(dataset, "ladder")
    assert not any("×" in cell for cell in cells(figure.axes[0])["20 tensor cores"])
    assert "Below the dotted line: for reference, not ranked." in caption(figure)


def test_the_headline_has_a_bar_for_each_rung_and_breaks_its_axis_beyond_the_baseline(dataset):
    best = dataset[0]["best"].copy()
    best.loc[best["kernel"] == "16_thin_edge", "ratio"] *= 4
    data = View(*changed(dataset, best=best), "warm")
    figure = figures.draw("headline", data)
    percent = 100 * data.at(data.headline).loc[data.kernels, "ratio"]
    for axes in figure.axes:
        assert [bar.get_width() for bar in axes.patches] == pytest.approx(list(percent))
    near, far = figure.axes
    assert near.get_xlim() == (0, 125)
    assert far.get_xlim()[0] > 125
    assert sorted(words(figure)[2:]) == sorted(f"{value:.3g} %" for value in percent)
    assert len(draw(dataset, "headline").axes) == 1


def test_samples_show_every_sample_by_process(dataset):
    figure = draw(dataset, "samples")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["4096:\nthe ladder's", "256:\nsmallest", "256×256×16384:\nwidest spread"]
    for axes in figure.axes:
        assert (
            sum(len(each.get_offsets()) for each in axes.collections)
            == len(synthetic.SHARES) * 5 * 8
        )
        assert len({tuple(each.get_facecolor()[0]) for each in axes.collections}) == 5
    widest = max(abs(x) for each in figure.axes[2].collections for x, _ in each.get_offsets())
    assert (
        widest
        > 10
        > max(abs(x) for each in figure.axes[0].collections for x, _ in each.get_offsets())
    )
    assert (
        "m"
        in next(
            label.get_text()
            for label in figure.axes[2].get_yticklabels()
            if "01" in label.get_text()
        ).split()
    )


def test_energy_has_the_range_of_its_processes(dataset):
    best = rows(dataset, state="sustained").query("energy_j.notna()").set_index("kernel")
    figure = draw(dataset, "energy", state="sustained")
    (axes,) = figure.axes
    drawn = lines(axes)
    assert list(drawn) == shown(dataset, "sustained")
    assert {kernel: line.get_xdata()[0] for kernel, line in drawn.items()} == pytest.approx(
        best["energy_j"].to_dict()
    )
    row = best.loc["05_register_tile"]
    ranges = [list(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert pytest.approx([row["energy_low_j"], row["energy_high_j"]]) in ranges
    assert cells(axes)["05 register tile"][:2] == [
        three(row["energy_j"]),
        three(1000 * row["tflop_per_j"]),
    ]
    assert (axes.get_xscale(), axes.get_title(loc="left")) == ("log", "4096")
    assert figure.texts[0].get_text().endswith("sustained")


@pytest.mark.slow
def test_datasets_side_by_side(dataset, tmp_path):
    other = made(
        tmp_path / "y",
        seed=1,
        device="nvidia-other",
        name="NVIDIA Other",
        speed=0.8,
        problems=synthetic.SMALL,
    )
    figure = figures.comparison(
        {"nvidia-made-up": View(*dataset, "warm"), "nvidia-other": View(*other, "warm")}
    )
    count = len(synthetic.SHARES)
    # rates and ratios
    for axes, quotient, near in zip(figure.axes, (0.8, 1), (0.02, 0.03), strict=True):
        widths = [bar.get_width() for bar in axes.patches]
        assert np.divide(widths[count:], widths[:count]) == pytest.approx(
            [quotient] * count, rel=near
        )
    assert {"nvidia-made-up: NVIDIA Made Up", "nvidia-other: NVIDIA Other"} <= set(words(figure))
    right = axes.get_xlim()[1]
    # the rungs can be told apart; what leaves the panel has its value written there
    assert 125 < right < 140
    assert (
        [text.get_text() for text in axes.texts]
        == [f"{width:.3g}" for width in widths if width > right]
        != []
    )
    assert words(figure)[0] == "Best configurations at M = N = K = 4096, float32"


def test_gpus_are_compared_on_what_all_measured(dataset):
    fewer = dataset[0]["references"].query(f"uuid != '{synthetic.GPUS[1]}' or m != 8192")
    (axes,) = draw(changed(dataset, references=fewer), "gpus").axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert "4096" in labels
    assert not [label for label in labels if label.startswith("8192")]


def test_ways_of_compiling_are_compared_for_the_same_parameters_and_problem(dataset, compiled):
    summary = compiled[0]["summary"].set_index(["kernel", "configuration", "problem"])["ratio"]
    (axes,) = draw(compiled, "compilers").axes
    assert axes.get_title(loc="left") == "compiler=nvrtc\nmaxrregcount=128"
    assert axes.get_xlabel() == "% faster than nvcc"
    for place, kernel in enumerate(("03_shared_tile", "05_register_tile")):
        labels = {
            label for name, label, _ in summary.index if name == kernel and "nvrtc" not in label
        }
        changes = [
            100
            * (
                summary[kernel, f"{label} compiler=nvrtc maxrregcount=128", problem]
                / summary[kernel, label, problem]
                - 1
            )
            for label in labels
            for problem in (256, 4096)
        ]
        assert sorted(axes.collections[place].get_offsets()[:, 0]) == pytest.approx(sorted(changes))
        assert axes.lines[place].get_xdata()[0] == pytest.approx(np.median(changes))
    assert [figures.NEEDS["compilers"](View(*given, "warm")) for given in (dataset, compiled)] == [
        False,
        True,
    ]
