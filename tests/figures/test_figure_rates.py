"""Figures of rates, times and energy: what is drawn of a made-up dataset.

The published datasets are drawn to the same bytes again by other tests. Here stands what the
numbers in a figure must be.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import synthetic
from drawn import caption, cells, changed, draw, heads, lines, made, note, rows, words
from ladder.figures import draw as figures
from ladder.figures.data import MARKS, View, three
from ladder.figures.headline import share
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
    others = figure.axes[-1]
    beside = {text.get_position()[1]: text.get_text() for text in others.texts}
    labels = [label.get_text() for label in others.get_yticklabels()]
    assert beside[labels.index("256×256×16384")] == "05 ≈03: 300 %"
    assert "ahead of cuBLAS on " in words(figure)[0].replace("\n", " ")


def test_intervals_and_marks_are_drawn(dataset):
    best = rows(dataset, state="warm", kernel="05_register_tile")
    of_squares = best[best["problem"].str.isdigit()].sort_values("m")
    figure = draw(dataset, "performance")
    squares, others = figure.axes[0], figure.axes[-1]
    drawn = lines(squares)["05 register tile"].get_ydata()
    assert drawn == pytest.approx(100 * of_squares["ratio"].to_numpy())
    bands = [band.get_paths()[0].vertices[:, 1] for band in squares.collections if band.get_paths()]
    ends = 100 * of_squares["ratio_low"].min(), 100 * of_squares["ratio_high"].max()
    assert any((band.min(), band.max()) == pytest.approx(ends) for band in bands)
    bars = [bar for bar in others.collections if hasattr(bar, "get_segments")]
    segments = [segment for bar in bars for segment in bar.get_segments()]
    other = best.set_index("problem").loc["256x256x16384", ["ratio_low", "ratio_high"]]
    assert any(sorted(segment[:, 0]) == pytest.approx(list(100 * other)) for segment in segments)
    edges = {to_hex(edge) for dots in squares.collections for edge in dots.get_edgecolors()}
    assert MARKS["throttled"][1] in edges  # at 8192
    assert "edge: throttled" in words(figure)
    assert "t: throttled, the clock was held down" in note(figure)


def test_what_lies_outside_the_panels_is_counted_and_tensor_cores_have_a_panel(dataset):
    figure, data = draw(dataset, "performance"), View(*dataset, "warm")
    low, high = figure.axes[0].get_ylim()
    near = 100 * data.best.loc[~data.best["kernel"].isin(data.apart), "ratio"]
    outside = near.notna() & ~near.between(low, high)
    assert f"Outside the panels: {outside.sum()} points" in caption(figure)
    assert set(lines(figure.axes[1])) == {data.nice(name) for name in data.apart}


@pytest.mark.parametrize("state", ["warm", "cold"])
def test_the_ladder_is_shown_at_one_size_and_says_what_is_fastest_where_and_when(dataset, state):
    figure = draw(dataset, "ladder", state)
    data = View(*dataset, state)
    ratios = data.at("4096").loc[data.plain, "ratio"]
    fastest = f"{data.nice(ratios.idxmax())}, {three(100 * ratios.max())} % of cuBLAS"
    assert words(figure)[0] == f"Fastest: {fastest}"
    assert caption(figure).startswith(f"{data.measured} %: of cuBLAS.")
    (axes,) = figure.axes
    names = [data.nice(kernel) for kernel in data.names]
    assert list(cells(axes)) == names
    bars = {bars.get_label(): bars.patches[0].get_hatch() for bars in axes.containers}
    assert (bars["05_register_tile"] == "....") == (state == "cold")  # timed warm


def test_a_row_of_the_ladder_has_its_bar_interval_rate_and_share(dataset):
    best = rows(dataset, state="warm", problem="4096").set_index("kernel")
    at = best.loc["05_register_tile"]
    (axes,) = draw(dataset, "ladder").axes
    values = [at["tflops"], 100 * at["ratio"]]
    assert cells(axes)["05 register tile"][:2] == [three(value) for value in values]
    assert heads(axes) == ["TFLOP/s", "%", "over rung"]
    assert not any("×" in cell for cell in cells(axes)["20 tensor cores"])  # it is not ranked
    lengths = [bar.get_width() for bar in axes.patches]
    assert lengths == pytest.approx(list(best.loc[View(*dataset, "warm").names, "tflops"]))
    drawn = sorted(axes.get_lines()[3].get_xdata())
    assert drawn == pytest.approx(list(at[["tflops_low", "tflops_high"]]))
    beyond = [f"{length:.3g}" for length in lengths if length > axes.get_xlim()[1]]
    assert beyond != []
    assert [text.get_text() for text in axes.texts if text.get_path_effects()] == beyond
    assert "White cuts" in caption(axes.figure)


def test_a_gain_is_over_the_rung_that_a_rung_builds_on(dataset, monkeypatch):
    """`pairs.csv` may compare with another one. A rung that was not measured is nobody's base."""
    (axes,) = draw(dataset, "ladder").axes
    assert cells(axes)["16 thin edge"][2] == ""  # builds on rung 13
    assert re.fullmatch(r"≈ ×[01][.0-9]* \(07\)", cells(axes)["08 padded shared"][2])
    kernel = replace(known()["10_block_tile_128"], builds_on="05_register_tile")
    monkeypatch.setattr("ladder.figures.data.known", lambda: {**known(), kernel.name: kernel})
    (axes,) = draw(changed(dataset, pairs=dataset[0]["pairs"]), "ladder").axes
    best = rows(dataset, state="warm", problem="4096").set_index("kernel")["tflops"]
    factor, _, over = cells(axes)["10 block tile 128"][2].partition(" ")
    assert over == "(05)"
    expected = best["10_block_tile_128"] / best["05_register_tile"]
    assert float(factor[1:]) == pytest.approx(expected, rel=0.02)


def test_the_headline_has_a_bar_for_each_step_and_the_numbers_of_all_others(dataset, monkeypatch):
    monkeypatch.setattr("ladder.figures.headline.MOST", 3)
    tensor = dataset[0]["best"]["kernel"] == "16_thin_edge"
    best = dataset[0]["best"].assign(tensor_cores=tensor)
    data = View(*changed(dataset, best=best), "warm")
    figure = figures.draw("headline", data)
    rungs, highest, bars = data.at(data.headline).loc[data.kernels], 0.0, []
    for row in rungs.drop("16_thin_edge").to_dict("records"):
        if row["ratio_low"] > highest:
            bars.append(100 * row["ratio"])
        highest = max(highest, row["ratio_high"])
    assert [bar.get_width() for bar in figure.axes[0].patches] == pytest.approx(bars)
    assert len(bars) == 6  # rung 08 is the program of rung 07
    held = data.sustained.set_index("kernel")
    assert f"({share(held.loc['16_thin_edge'])} sustained)" in caption(figure)
    ends = [list(line.get_xdata()) for line in figure.axes[0].get_lines()]
    row = held.loc["05_register_tile"]
    assert pytest.approx([100 * row["ratio_low"], 100 * row["ratio_high"]]) in ends
    texts = " ".join(words(figure)).replace("\n", " ")
    assert all(share(row) in texts for _, row in rungs.iterrows())
    expected = f"From {bars[0]:.3g} % to {max(bars):.3g} % of cuBLAS in {len(bars)} steps"
    assert words(figure)[0].replace("\n", " ").startswith(expected)


def test_energy_has_the_range_of_its_processes(dataset):
    best = rows(dataset, state="sustained").query("energy_j.notna()").set_index("kernel")
    (axes,) = draw(dataset, "energy", state="sustained").axes
    points = {kernel: line.get_xdata()[0] for kernel, line in lines(axes).items()}
    assert points == pytest.approx(best["energy_j"].to_dict())
    row = best.loc["05_register_tile"]
    ranges = [list(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert pytest.approx([row["energy_low_j"], row["energy_high_j"]]) in ranges
    values = [three(row["energy_j"]), three(1000 * row["tflop_per_j"])]
    assert cells(axes)["05 register tile"][:2] == values


@pytest.mark.slow
def test_datasets_side_by_side(dataset, tmp_path):
    other = made(tmp_path / "y", seed=1, device="b", speed=0.8, problems=synthetic.SMALL)
    figure = figures.comparison({"a": View(*dataset, "warm"), "b": View(*other, "warm")})
    count = len(synthetic.SHARES)
    # rates and ratios
    for axes, quotient, near in zip(figure.axes, (0.8, 1), (0.02, 0.03), strict=True):
        widths = [bar.get_width() for bar in axes.patches]
        quotients = np.divide(widths[count:], widths[:count])
        assert quotients == pytest.approx([quotient] * count, rel=near)
    assert words(figure)[0] == "Best configurations at M = N = K = 4096, float32"


def test_gpus_are_compared_on_what_all_measured(dataset):
    fewer = dataset[0]["references"].query(f"uuid != '{synthetic.GPUS[1]}' or m != 8192")
    (axes,) = draw(changed(dataset, references=fewer), "gpus").axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert "4096" in labels
    assert not [label for label in labels if label.startswith("8192")]


def test_ways_of_compiling_are_compared_for_the_same_parameters_and_problem(compiled):
    summary = compiled[0]["summary"].set_index(["kernel", "configuration", "problem"])["ratio"]
    figure = draw(compiled, "compilers")
    (axes,) = figure.axes
    assert words(figure)[0].startswith("nvrtc maxrregcount=128 against nvcc")
    assert axes.get_xlabel() == "% faster than nvcc"
    for place, kernel in enumerate(("03_shared_tile", "05_register_tile")):
        changes = []
        for name, label, problem in summary.index:
            other = (kernel, f"{label} compiler=nvrtc maxrregcount=128", problem)
            if name == kernel and other in summary:
                changes.append(100 * (summary[other] / summary[name, label, problem] - 1))
        dots = axes.collections[place].get_offsets()[:, 0]
        assert sorted(dots) == pytest.approx(sorted(changes))
        assert axes.lines[place].get_xdata()[0] == pytest.approx(np.median(changes))
