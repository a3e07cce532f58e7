"""What the figures show, read from what is drawn: of a made-up dataset, and at the widths of a screen and of a paper's columns."""

import contextlib
import json
import os
import re
import signal
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
import synthetic
from ladder.analysis import tables
from ladder.analysis.dataset import Dataset
from ladder.core.files import ROOT
from ladder.figures import draw as figures
from ladder.figures import labels
from ladder.figures.data import GREY, MARKS, View, three
from ladder.figures.layout import side_by_side
from ladder.measuring import counters
from ladder.model.kernel_file import discover
from ladder.storage import csv_files
from ladder.storage.dataset_layout import DRAWN_FROM
from matplotlib.colors import to_hex

WIDTHS = [11.0, 7.1, 3.4]


def made(folder, **given):
    """The tables of a made-up dataset as figures read them, and its environment."""
    dataset = Dataset.open(synthetic.write(folder, **given), discover(ROOT).values())
    dataset.write({name: folder / f"{name}.csv" for name in DRAWN_FROM})
    return {name: csv_files.read_csv(folder / f"{name}.csv") for name in DRAWN_FROM}, dataset.environment


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return made(tmp_path_factory.mktemp("data") / "x")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """One in which every configuration is compiled in two ways."""
    problems, kernels = [(256, 256, 256), (4096, 4096, 4096)], ("03_shared_tile", "05_register_tile", "cublas")
    given = {"problems": problems, "kernels": kernels, "builds": ("", "compiler=nvrtc maxrregcount=128"), "processes": 3}
    return made(tmp_path_factory.mktemp("data") / "x", **given)


DRAWN = {}
"""The figures that were drawn, with the dataset of each: tests share them, and change none."""


def draw(dataset, name, state="warm", width=11.0):
    key = id(dataset), name, state, width
    if key not in DRAWN:
        DRAWN[key] = dataset, figures.draw(name, figures.View(*dataset, state, width))
    return DRAWN[key][1]


def words(figure):
    """All text of a figure."""
    artists = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    return [artist.get_text() for artist in [*artists, *legends]]


def caption(figure):
    return figure.texts[1].get_text().replace("\n", " ")


def note(figure):
    """The caption and the description, which is not drawn."""
    return f"{caption(figure)} {figure.get_label()}"


def cells(axes):
    """The table beside a panel: the cells of each row, by the name on the y axis."""
    rows = {text.get_text(): [] for text in axes.get_yticklabels()}
    for text in axes.texts:
        if getattr(text, "xycoords", "") == ("axes fraction", "data"):
            rows[list(rows)[int(text.xy[1])]].append(text.get_text())
    return rows


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


def name(kernel):
    return kernel.replace("_", " ")


NAMES = [
    *(it for it in figures.FIGURES if it != "ratio"),  # laid out as performance is
    "parameters-05_register_tile",
    "parameters-16_thin_edge",
]


def boxes(figure):
    """The boxes of a figure's title, note, legend and panels, by name."""
    renderer = figure.canvas.get_renderer()
    found = {"title": figure.texts[0], "note": figure.texts[1]} | {f"legend {i}": it for i, it in enumerate(figure.legends)}
    found = {key: artist.get_window_extent(renderer) for key, artist in found.items()}
    return found | {f"panel {i}": axes.get_tightbbox(renderer) for i, axes in enumerate(figure.axes)}


@pytest.mark.slow
def test_gpus_show_each_series_once(dataset):
    figure = draw(dataset, "gpus")
    (axes,) = figure.axes
    dots = sum(len(it.get_offsets()) for it in axes.collections)
    jobs = len([kernel for kernel in synthetic.SHARES if kernel[0].isdigit()]) + 3  # the baselines are timed apart here
    assert dots == jobs * len(synthetic.PROBLEMS)
    assert len([text for text in words(figure) if text.startswith("GPU-")]) == 3


NARROW = ["performance", "accuracy", "samples", "parameters-05_register_tile"]
"""Those with the most panels and labels, which are laid out in a paper's column too."""


@pytest.mark.parametrize(
    ("which", "width"),
    [
        *(pytest.param(it, 11.0, marks=[pytest.mark.slow] * (it != "performance")) for it in NAMES),
        *(pytest.param(it, 3.4, marks=[pytest.mark.slow] * (it != "performance")) for it in NARROW),
    ],
)
def test_a_figure_has_its_width_and_nothing_on_it_overlaps(request, which, width):
    of, state = "compiled" if which == "compilers" else "dataset", "sustained" if which == "energy" else "warm"
    figure = draw(request.getfixturevalue(of), which, state, width)
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == width
    assert figure.get_size_inches()[1] < 14
    assert figure.texts[1].get_text().count("\n") < (2 if width == 11 else 5)
    found, page = boxes(figure), figure.bbox
    for key, box in found.items():
        assert min(box.x0 - page.x0, page.x1 - box.x1, box.y0 - page.y0, page.y1 - box.y1) > -1, f"{key} leaves the page"
    for key, box in found.items():
        for other, its in found.items():
            apart = box.x1 <= its.x0 + 1 or its.x1 <= box.x0 + 1 or box.y1 <= its.y0 + 1 or its.y1 <= box.y0 + 1
            assert key == other or apart, f"{key} overlaps {other}"
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
            shown = [label for label in axis.get_ticklabels() if label.get_visible() and label.get_text()]
            ends = sorted((getattr(b, low), getattr(b, high)) for b in (it.get_window_extent(renderer) for it in shown))
            if not any(label.get_rotation() % 90 for label in shown):  # what stands aslant has boxes that overlap
                assert all(b[0] >= a[1] - 0.5 for a, b in pairwise(ends)), [t.get_text() for t in shown]
    for text in [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]:
        assert text.get_fontsize() >= 5.5, text.get_text()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["performance", "accuracy", "samples"])
def test_a_figure_fits_a_column(dataset, which):
    figure = draw(dataset, which, width=3.4)
    assert figure.get_size_inches()[1] < 6
    assert not any("register tile" in text for text in words(figure))  # rungs stand by their numbers
    if which != "accuracy":  # it has numbers at any width
        wide = draw(dataset, which)
        assert "05 register tile" in "".join(words(wide) + [it.get_text() for it in wide.axes[0].get_yticklabels()])


def test_what_is_fastest_is_told_with_what_cannot_be_told_from_it(dataset):
    tables, environment = dataset
    best, ends = tables["best"].copy(), ["ratio", "ratio_low", "ratio_high"]
    at = (best["state"] == "warm") & (best["problem"].astype(str).isin(["4096", "256x256x16384"]))
    best.loc[at & best["kernel"].isin(["05_register_tile", "cublas_tf32"]), ends] = [3.0, 2.9, 3.1]
    best.loc[at & (best["kernel"] == "03_shared_tile"), ends] = [2.85, 2.8, 2.95]
    best.loc[at & (best["kernel"] == "02_naive_coalesced"), ends] = [2.7, 2.6, 2.8]
    figure = draw(({**tables, "best": best}, environment), "performance")
    above = [
        {round(it.get_position()[0], 3): it.get_text() for it in axes.texts if it.get_position()[1] == 1.02}
        for axes in figure.axes
    ]
    assert above[0][4096] == "05\n≈03"
    labels = [it.get_text().replace("\n", "") for it in figure.axes[1].get_xticklabels()]
    assert above[1][labels.index("256×256×16384")] == "05\n≈03"
    assert {axes.get_title(loc="left") for axes in figure.axes} == {"fastest of rungs and cuBLAS:"}
    assert "≈: the intervals overlap" in caption(figure)


def test_how_many_panels_stand_side_by_side():
    assert [side_by_side(width) for width in WIDTHS] == [3, 2, 1]


def test_ratios_are_drawn_near_the_reference(dataset):
    figure = draw(dataset, "ratio")
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "linear"]  # squares and other shapes
    assert {axes.get_ylim() for axes in figure.axes} == {(75, 125)}
    best = dataset[0]["best"]
    values = 100 * best.loc[best["state"] == "warm", "ratio"]
    assert f"{((values < 75) | (values > 125)).sum()} points" in caption(figure)  # TF32 is far above


def test_all_rates_are_drawn_on_a_logarithmic_axis(dataset):
    figure = draw(dataset, "performance")
    assert [axes.get_yscale() for axes in figure.axes] == ["log", "log"]
    best = dataset[0]["best"]
    rates = best.loc[(best["state"] == "warm") & best["problem"].astype(str).str.isdigit(), "tflops"]
    low, high = figure.axes[0].get_ylim()
    assert low < rates.min() < rates.max() < high


@pytest.fixture(scope="module")
def close(tmp_path_factory):
    """One of sizes that lie close to each other."""
    sizes = [256, 1000, 1024, 2048, 6144, 8192, 16384]
    problems = [*((size,) * 3 for size in sizes), (64, 4096, 4096)]
    return made(tmp_path_factory.mktemp("data") / "x", problems=problems, kernels=("03_shared_tile", "cublas"), processes=3)


@pytest.mark.slow
@pytest.mark.parametrize("width", [11.0, 3.4])
def test_of_sizes_that_lie_close_one_has_a_label(close, width):
    figure = draw(close, "ratio", width=width)
    axes = next(axes for axes in figure.axes if axes.get_xlabel() == "M = N = K")
    labels = [label for label in axes.get_xticklabels() if label.get_text()]
    assert {"256", "1024"} <= {label.get_text() for label in labels}
    assert "1000" not in {label.get_text() for label in labels}
    boxes = [label.get_window_extent(figure.canvas.get_renderer()) for label in labels]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_a_few_rungs_have_a_color_and_a_name(dataset):
    data = View(*dataset, "warm")
    assert len(data.prominent) == 6 < len(data.kernels)
    assert "10_block_tile_128" in data.prominent  # it or 16 is the fastest on every problem
    assert "16_thin_edge" in data.prominent
    assert "08_padded_shared" not in data.prominent  # the twin of 07
    colours = [to_hex(data.colours()[kernel]) for kernel in data.prominent]
    assert len({*colours, GREY}) == 7
    assert {data.colours()[kernel] for kernel in data.kernels if kernel not in data.prominent} == {GREY}
    squares, others = draw(dataset, "performance").axes
    named = {text.get_text() for text in squares.texts}
    assert {data.nice(kernel) for kernel in [*data.prominent, *data.baselines]} <= named
    assert "08 padded shared" not in named
    numbers = [text.get_text() for text in others.texts if text.get_position()[1] != 1.02]
    assert sorted(numbers) == sorted(4 * [data.brief(kernel) for kernel in data.prominent])
    assert "Grey: rungs" in caption(squares.figure)
    assert "08" in caption(squares.figure).partition("Grey")[2]


def test_names_lie_apart_where_they_belong():
    assert labels.apart([0.5, 0.5, 0.1], 0.2, 0, 1) == pytest.approx([0.4, 0.6, 0.1])
    assert labels.apart([0.05, 0.0], 0.2, 0, 1) == pytest.approx([0.2, 0.0])
    assert labels.apart([0.99, 0.98, 0.97], 0.1, 0, 1) == pytest.approx([1.0, 0.9, 0.8])
    assert labels.apart([0.1, 0.9], 0.2, 0, 1) == pytest.approx([0.1, 0.9])
    assert labels.apart([], 0.2, 0, 1) == []


def test_files_describe_themselves_and_captions_do_not(dataset, tmp_path):
    figure = draw(dataset, "ladder")
    figures.save(figure, tmp_path / "x")
    (described,) = re.findall("<desc>(.*)</desc>", (tmp_path / "x.svg").read_text())
    assert described == figure.get_label()
    assert "commit 0000000000" in described
    assert "commit" not in caption(figure)


def test_intervals_and_marks_are_drawn(dataset):
    best = dataset[0]["best"].astype({"problem": str})
    best = best[(best["state"] == "warm") & (best["kernel"] == "05_register_tile")]
    squares, others = draw(dataset, "ratio").axes
    rows = best[best["problem"].str.isdigit()].sort_values("m")
    assert lines(squares)["05 register tile"].get_ydata() == pytest.approx(100 * rows["ratio"].to_numpy())
    bands = [
        path.get_paths()[0].vertices[:, 1] for path in squares.collections if path.get_alpha() == 0.25 and len(path.get_paths())
    ]
    ends = 100 * rows["ratio_low"].min(), 100 * rows["ratio_high"].max()
    assert any((band.min(), band.max()) == pytest.approx(ends) for band in bands)
    bars = [segment[:, 1] for it in others.collections if hasattr(it, "get_segments") for segment in it.get_segments()]
    other = best[best["problem"] == "256x256x16384"].iloc[0]
    assert any(sorted(bar) == pytest.approx([100 * other["ratio_low"], 100 * other["ratio_high"]]) for bar in bars)
    edges = {tuple(np.round(edge[:3], 2)) for it in squares.collections for edge in it.get_edgecolors()}
    assert (0.84, 0.15, 0.16) in edges  # throttled at 8192
    figure = draw(dataset, "ratio")
    assert "edge: throttled" in words(figure)
    assert "t: throttled, the clock was held down" in note(figure)


@pytest.mark.slow
def test_a_line_that_ends_says_why(dataset):
    figure = draw(dataset, "performance", "cold")
    assert "Lines end where a launch takes so long that cold is as warm: 01 from 256 up" in note(figure).replace("512", "256")
    drawn = lines(figure.axes[0])
    best = dataset[0]["best"]
    cold = best[(best["state"] == "cold") & (best["kernel"] == "03_shared_tile") & best["tflops"].notna()]
    assert len(drawn["03 shared tile"].get_xdata()) == cold["problem"].astype(str).str.isdigit().sum() < 6
    assert "as warm" not in note(draw(dataset, "performance"))


def test_the_ladder_is_shown_at_one_size_with_means_over_one_set(dataset):
    for state in ("warm", "cold"):
        figure = draw(dataset, "ladder", state)
        assert words(figure)[0] == f"The ladder at M = N = K = 4096 on NVIDIA Made Up, {state}"
        (of,) = re.findall(r"over the (\d+) problems that every rung has: ([^.]*)\.", note(figure))
        assert (of[0], len(of[1].split(", "))) == ("10", 10)
        (axes,) = figure.axes
        assert list(cells(axes)) == [View(*dataset, state).nice(kernel) for kernel in _shown(dataset, state)]
        hatched = {bar.get_label() for bars in axes.containers for bar in [bars] if bars.patches[0].get_hatch() == "...."}
        assert ("05_register_tile" in hatched) == (state == "cold")
    best = dataset[0]["best"]
    warm = best[(best["state"] == "warm") & (best["kernel"] == "05_register_tile")]
    mean = 100 * np.exp(np.log(warm["ratio"]).mean())
    at = warm[warm["problem"].astype(str) == "4096"].iloc[0]
    expected = [three(at["tflops"]), three(100 * at["ratio"]), three(mean)]
    (axes,) = draw(dataset, "ladder").axes
    assert cells(axes)["05 register tile"][:3] == expected
    heads = [text.get_text() for text in axes.texts if getattr(text, "xycoords", "") == "axes fraction"]
    assert heads == ["TFLOP/s", "% of cuBLAS", "mean of 10", "over the rung below"]


def _shown(dataset, state):
    """The kernels in the order of the ladder, then the reference, then what is not ranked."""
    data = View(*dataset, state)
    unranked = [kernel for kernel in synthetic.SHARES if kernel in ("20_tensor_cores", "cublas_tf32", "cublaslt_best")]
    return [*data.kernels, "cublas", *unranked]


@pytest.fixture(scope="module")
def spoiled(compiled, tmp_path_factory):
    """One in which the confirmation found a kernel wrong, and nothing is marked; read from files, as figures are drawn."""
    found, environment = compiled
    folder, best = tmp_path_factory.mktemp("data"), found["best"].copy()
    wrong = best["kernel"] == "05_register_tile"
    best.loc[wrong, "status"] = "incorrect"
    measured = best.columns[best.columns.get_loc("median_us") :].intersection(["tflops", "ratio", "frobenius_error"])
    best.loc[wrong, measured] = np.nan
    for name, table in (found | {"best": best}).items():
        csv_files.write_csv(table.assign(marks="") if "marks" in table else table, folder / f"{name}.csv")
    return {name: csv_files.read_csv(folder / f"{name}.csv") for name in found}, environment


@pytest.mark.parametrize("name", list(figures.FIGURES))
def test_figures_without_marks_are_drawn_and_none_has_a_wrong_kernel(spoiled, name):
    data = figures.View(*spoiled, "warm")
    if name not in figures.NEEDS or figures.NEEDS[name](data):
        figure = figures.draw(name, data)
        assert figure.axes
        assert not any("05 register tile" in text for text in words(figure))


def test_means_leave_out_what_a_rung_has_not(dataset):
    found, environment = dataset
    best = found["best"][(found["best"]["kernel"] != "10_block_tile_128") | (found["best"]["m"] != 2049)]
    figure = draw((found | {"best": best}, environment), "ladder")
    assert "over the 9 problems that every rung has" in note(figure)
    assert "2049" not in note(figure)


def test_gains_say_what_pairs_say(dataset):
    (axes,) = draw(dataset, "ladder").axes
    assert "faster" in cells(axes)["05 register tile"][3]
    assert re.fullmatch("≈ ×[01][.0-9]*", cells(axes)["08 padded shared"][3])
    found, environment = dataset
    pairs = found["pairs"].assign(verdict="slower")
    (axes,) = draw((found | {"pairs": pairs}, environment), "ladder").axes
    assert "slower" in cells(axes)["05 register tile"][3]


def test_bars_have_intervals_and_those_of_tensor_cores_are_broken(dataset):
    best = dataset[0]["best"].astype({"problem": str})
    rows = best[(best["state"] == "warm") & (best["problem"] == "4096")].set_index("kernel")
    (axes,) = draw(dataset, "ladder").axes
    lengths = [bar.get_width() for bar in axes.patches]
    assert lengths == pytest.approx(list(rows.loc[_shown(dataset, "warm"), "tflops"]))
    drawn = [sorted(line.get_xdata()) for line in axes.get_lines()]
    assert drawn[3] == pytest.approx(list(rows.loc["05_register_tile", ["tflops_low", "tflops_high"]]))
    assert rows.loc["16_thin_edge", "tflops"] < axes.get_xlim()[1] < rows.loc["20_tensor_cores", "tflops"]
    cut = [round(float(np.mean(line.get_ydata()))) for line in axes.get_lines() if line.get_label() == "_break"]
    beyond = [place for place, length in enumerate(lengths) if length > axes.get_xlim()[1]]
    assert cut == [place for place in beyond for _ in range(2)] != []
    assert "White cuts" in caption(axes.figure)


@pytest.mark.slow
def test_a_marked_bar_is_hatched(tmp_path):
    throttled = made(tmp_path / "x", problems=synthetic.SMALL, throttled=4096)
    figure = draw(throttled, "ladder")
    assert {bar.get_hatch() for bar in figure.axes[0].patches} == {"////"}
    assert "t: throttled" in note(figure)
    assert "hatched: marked" in words(figure)


def test_the_footer_names_what_a_number_depends_on(dataset):
    told = note(draw(dataset, "performance"))
    for part in ("power limit 700 W", "operands uniform", "Intervals: between-process, 95 %", "in 5 processes", "n = 40 samples",
                 "FP32 peak 65.1 TFLOP/s, measured; 66.9 by lanes × clock", "Empty launch 5.1 µs, repeated 1.4"):  # fmt: skip
        assert part in told, part


def test_intervals_that_say_nothing_have_no_width(dataset):
    tables, environment = dataset
    best = tables["best"].assign(tflops_low=0.0, tflops_high=1e9)
    assert (
        "Intervals: between-process, 95 %, not known; n = 40"
        in View({**tables, "best": best}, environment, "warm", 11.0).intervals()
    )


@pytest.mark.slow
@pytest.mark.parametrize("reason", [None, "ncu is not on the PATH"])
def test_the_footer_of_the_counters_names_the_gpu_that_counted(dataset, reason):
    """It need not be the one that measured."""
    models = dataset[0]["models"]
    rows = models[(models["problem"].astype(str) == "4096") & models["kernel"].isin(["03_shared_tile", "05_register_tile"])]
    counts = rows.drop_duplicates("kernel").reindex(columns=counters.COLUMNS).assign(uuid="GPU-other", reason=reason)
    counts[[*counters.METRICS, "bank_conflicts"]] = np.nan if reason else 7.0
    told = note(figures.counters(View(*dataset, "warm", 11.0), counts))
    assert told.startswith("2 of 2 not counted: ncu is not on the PATH. " if reason else "Counted on GPU-other. ")


@pytest.mark.slow
def test_without_a_confirmation_intervals_are_within_run(tmp_path):
    found = made(tmp_path / "x", problems=synthetic.SMALL, processes=0)
    figure = draw(found, "ladder")
    assert "Intervals: within-run, 95 %" in note(figure)
    assert not re.search(r"in \d+ processes", note(figure))
    assert not [text for row in cells(figure.axes[0]).values() for text in row if "faster" in text]  # no verdict without pairs
    assert "f: few, fewer than three processes" in note(figure)


def test_parameters_use_the_range_of_the_colours_and_tell_shapes_apart(dataset):
    figure = draw(dataset, "parameters-05_register_tile")
    squares, others = figure.axes[:2]
    assert [axes.get_title(loc="left") for axes in (squares, others)] == ["squares", "other shapes"]
    assert [label.get_text() for label in squares.get_xticklabels()] == ["256", "512", "1024", "2048", "4096", "8192"]
    assert len(others.get_xticklabels()) == 4
    low, high = squares.collections[0].get_clim()
    values = np.concatenate([axes.collections[0].get_array().ravel() for axes in (squares, others)])
    assert (high, others.collections[0].get_clim()) == (100, (low, high))
    assert np.quantile(values, 0.05) - 1 <= low <= np.quantile(values, 0.15)
    summary = dataset[0]["summary"]
    mine = summary[summary["kernel"] == "05_register_tile"]
    raced = [text.get_text() for axes in (squares, others) for text in axes.texts if text.get_text().startswith("~")]
    assert len(raced) == (mine["stop"] == "race").sum() > 0
    assert "n = 12 samples a cell, n = 5 where it was eliminated." in note(figure)
    flags = {text.get_text().split()[-1] for axes in (squares, others) for text in axes.texts if " " in text.get_text()}
    assert flags == {"t"}
    assert "t: throttled, the clock was held down; ~: raced, eliminated early, few samples." in note(figure)
    heads = [text.get_text() for text in squares.texts if getattr(text, "xycoords", "") == "axes fraction"]
    assert heads == ["BM", "BN", "BK", "TM", "TN"]
    assert not [text for text in others.texts if getattr(text, "xycoords", "") == "axes fraction"]  # the names stand once
    assert "within-run" in note(figure)
    assert "between-process" not in note(figure)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """One of many problems."""
    problems = [(64 * size, 64, 64) for size in range(2, 17)] + [(size, size, size) for size in (64, 128)]
    return made(tmp_path_factory.mktemp("data") / "x", problems=problems, kernels=("03_shared_tile", "cublas"), processes=3)


@pytest.mark.slow
@pytest.mark.parametrize("width", [11.0, 3.4])
def test_parameters_of_many_problems_stand_below_each_other_and_leave_room_for_their_names(many, width, recwarn):
    figure = draw(many, "parameters-03_shared_tile", width=width)
    assert not [str(said.message) for said in recwarn if "layout" in str(said.message)]
    squares, others = (axes for axes in figure.axes if axes.get_title(loc="left"))
    assert squares.get_position().y0 > others.get_position().y1
    assert others.get_position().height * figure.get_size_inches()[1] > 0.5


def test_the_roofline_shows_what_passes_the_peak_on_tensor_cores_and_marks(dataset):
    found, environment = dataset
    best, models = found["best"].copy(), found["models"].copy()
    at = (best["problem"].astype(str) == "4096") & (best["state"] == "warm")
    best.loc[at & (best["kernel"] == "16_thin_edge"), ["tflops", "tensor_cores"]] = [200.0, True]
    best.loc[at & (best["kernel"] == "05_register_tile"), "marks"] = "drifting"
    models.loc[models["kernel"] == "16_thin_edge", "bound_tflops"] = np.nan
    figure = draw(({**found, "best": best, "models": models}, environment), "roofline")
    rate = best.loc[at & (best["kernel"] == "05_register_tile"), "tflops"].iloc[0]
    rungs = [kernel for kernel in synthetic.SHARES if kernel[0].isdigit() and kernel != "20_tensor_cores"]
    for axes in figure.axes:  # by the traffic of threads, and by the least one
        dots = {
            float(y): edge
            for dots in axes.collections
            for (_, y), edge in zip(dots.get_offsets(), dots.get_edgecolors(), strict=True)
        }
        assert 200.0 in dots
        assert axes.get_ylim()[1] > 200
        assert [to_hex(edge) for y, edge in dots.items() if to_hex(edge) != "#ffffff"] == [MARKS["drifting"][1]]
        assert to_hex(dots[rate]) == MARKS["drifting"][1]
        assert {kernel[:2] for kernel in rungs} <= {text.get_text() for text in axes.texts}
    assert "edge: drifting" in words(figure)
    assert "d: drifting" in note(figure)
    assert "Rungs on the tensor cores may lie above the FP32 peak." in caption(figure)
    assert "tensor cores" not in caption(draw(dataset, "roofline"))


@pytest.mark.filterwarnings("error")
def test_a_kernel_that_declares_no_traffic_has_its_least_on_the_roofline_only(compiled):
    found, environment = compiled
    models = found["models"].copy()
    models.loc[models["kernel"] == "03_shared_tile", ["intensity", "bound_tflops"]] = np.nan
    draw(({**found, "models": models}, environment), "roofline").canvas.draw()


def test_bounds_of_elements_are_a_line_a_precision(dataset):
    best = dataset[0]["best"]
    axes = draw(dataset, "accuracy").axes[1]
    bounds = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert len(bounds) == best["precision"].fillna("").nunique()
    for line in bounds:
        at = pd.DataFrame({"k": line.get_xdata(), "bound": line.get_ydata()}).groupby("k")["bound"]
        assert at.nunique().max() == 1


def test_gpus_are_compared_on_what_all_measured(dataset):
    found, environment = dataset
    series = found["references"]
    fewer = series[(series["uuid"] != synthetic.GPUS[1]) | (series["m"] != 8192)]
    labels = [label.get_text() for label in draw((found | {"references": fewer}, environment), "gpus").axes[0].get_xticklabels()]
    assert "4096" in labels
    assert not [label for label in labels if label.startswith("8192")]


CLASSES = {
    "rungs on CUDA cores": [kernel for kernel in synthetic.SHARES if kernel[0] in "01"],
    "cuBLAS": ["cublas", "cublaslt_best"],
    "rounded to TF32": ["20_tensor_cores", "cublas_tf32"],
}
"""How accuracy sorts the kernels."""


def test_accuracy_has_a_line_a_class_and_a_point_a_kernel(dataset):
    figure = draw(dataset, "accuracy")
    by_k, _, by_speed = figure.axes
    best = dataset[0]["best"]
    rows = best[(best["state"] == "warm") & best["tflops"].notna()]
    assert [sorted(found) for found in View(*dataset, "warm").classes().values()] == [sorted(of) for of in CLASSES.values()]
    for line, members in zip(by_k.get_lines(), CLASSES.values(), strict=True):
        of = rows[rows["kernel"].isin(members)].groupby("k")["frobenius_error"]
        assert list(line.get_ydata()) == pytest.approx(list(of.median()))
    points = {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in by_speed.get_lines()}
    assert set(points) == set(synthetic.SHARES)
    mine = rows[rows["kernel"] == "05_register_tile"]
    expected = 100 * np.exp(np.log(mine["ratio"]).mean()), mine["frobenius_error"].median()
    assert points["05_register_tile"] == pytest.approx(expected)
    assert {"rungs on CUDA cores (8)", "rounded to TF32: 20, cuBLAS TF32"} <= set(words(figure))
    assert "05" in {text.get_text() for text in by_speed.texts}


def test_rates_are_drawn_of_one_distribution(dataset, tmp_path, monkeypatch):
    """A campaign of many has each size many times; only errors have a place for that."""
    found, environment = dataset
    sparse = set(found["best"].loc[found["best"]["k"] > 1000, "problem"].astype(str))
    changed = dict(found)
    for name in ("summary", "best"):
        rows = found[name]
        changed[name] = rows.assign(
            distribution=rows["problem"].astype(str).map(lambda it: "sparse" if it in sparse else "uniform")
        )
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, stem, formats: None)
    monkeypatch.setattr(figures, "draw", lambda name, data: drawn.setdefault(name, set(data.order)))
    figures.draw_all(changed, environment, tmp_path)
    assert drawn["performance"] and not drawn["performance"] & sparse
    assert drawn["accuracy"] == drawn["performance"]
    assert drawn["distributions"] == drawn["performance"] | sparse


@pytest.mark.slow
def test_distributions_show_the_largest_error_of_each_and_both_bounds(dataset):
    found, environment = dataset
    best = found["best"].assign(distribution=found["best"]["k"].map(lambda k: "sparse" if k > 1000 else "uniform"))
    assert not figures.NEEDS["distributions"](View(found, environment, "warm"))
    changed = found | {"best": best}
    assert figures.NEEDS["distributions"](View(changed, environment, "warm"))
    norm, elements = draw((changed, environment), "distributions").axes
    assert [label.get_text() for label in norm.get_xticklabels()] == ["uniform", "sparse"]
    rows = best[(best["state"] == "warm") & best["tflops"].notna()]
    for axes, column in ((norm, "frobenius_error"), (elements, "component_error")):
        largest = rows.groupby(["kernel", "distribution"])[column].max() * 2**24
        ranges = [sorted(line.get_ydata()) for line in axes.get_lines() if len(line.get_ydata()) == 2]
        expected = [
            [min(of), max(of)]
            for members in CLASSES.values()
            for name in ("uniform", "sparse")
            for of in [[largest[kernel, name] for kernel in members]]
        ]
        assert ranges == [pytest.approx(it) for it in expected]
    *bounds, worst = elements.collections
    for found_bounds, members in zip(bounds, CLASSES.values(), strict=True):  # each class has its own
        of = rows[rows["kernel"].isin(members)].groupby("distribution", sort=False)["component_bound"].max()
        assert [segment[0][1] for segment in found_bounds.get_segments()] == pytest.approx(list(of * 2**24))
    largest_k = rows[rows["precision"].isna()].groupby("distribution", sort=False)["k"].max()
    assert [segment[0][1] for segment in worst.get_segments()] == list(largest_k)


def test_samples_show_every_sample_by_process(dataset):
    figure = draw(dataset, "samples")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["4096:\nthe ladder's", "256:\nsmallest", "256×256×16384:\nwidest spread"]
    for axes in figure.axes:
        assert sum(len(it.get_offsets()) for it in axes.collections) == len(synthetic.SHARES) * 5 * 8
        assert len({tuple(it.get_facecolor()[0]) for it in axes.collections}) == 5
    widest = max(abs(x) for it in figure.axes[2].collections for x, _ in it.get_offsets())
    assert widest > 10 > max(abs(x) for it in figure.axes[0].collections for x, _ in it.get_offsets())
    assert "m" in next(label.get_text() for label in figure.axes[2].get_yticklabels() if "01" in label.get_text()).split()


def test_energy_has_the_range_of_its_processes(dataset):
    best = dataset[0]["best"]
    rows = best[(best["state"] == "sustained") & best["energy_j"].notna()].set_index("kernel")
    figure = draw(dataset, "energy", state="sustained")
    (axes,) = figure.axes
    drawn = lines(axes)
    assert list(drawn) == _shown(dataset, "sustained")
    assert {kernel: line.get_xdata()[0] for kernel, line in drawn.items()} == pytest.approx(rows["energy_j"].to_dict())
    row = rows.loc["05_register_tile"]
    ranges = [list(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert pytest.approx([row["energy_low_j"], row["energy_high_j"]]) in ranges
    assert cells(axes)["05 register tile"][:2] == [three(row["energy_j"]), three(1000 * row["tflop_per_j"])]
    assert (axes.get_xscale(), axes.get_title(loc="left")) == ("log", "4096")
    assert figure.texts[0].get_text().endswith("sustained")


def test_energy_of_one_process_has_no_range_and_what_has_none_is_named(dataset):
    tables, *others = dataset
    best = tables["best"].copy()
    counted = (best["state"] == "sustained") & best["energy_j"].notna()
    best.loc[counted & (best["kernel"] == "05_register_tile"), ["energy_low_j", "energy_high_j"]] = np.nan
    without = counted & (best["kernel"] == "01_naive_uncoalesced")
    best.loc[without, ["energy_j", "energy_low_j", "energy_high_j", "tflop_per_j"]] = np.nan
    figure = draw((tables | {"best": best}, *others), "energy", state="sustained")
    (axes,) = figure.axes
    assert set(lines(axes)) == set(synthetic.SHARES) - {"01_naive_uncoalesced"}
    ranges = [line for line in axes.get_lines() if len(line.get_xdata()) == 2 and line.get_label().startswith("_child")]
    without = [line.get_ydata()[0] for line in ranges if not np.isfinite(np.asarray(line.get_xdata(), float)).all()]
    assert [list(lines(axes))[int(place)] for place in without] == ["05_register_tile"]
    assert "Not counted: 01 at 4096." in caption(figure)
    assert "Without a line: counted in one process." in caption(figure)


def test_what_rounds_its_operands_is_context(dataset):
    data = figures.View(*dataset, "warm")
    assert "20_tensor_cores" in data.baselines
    assert "20_tensor_cores" not in data.kernels
    drawn = lines(draw(dataset, "performance").axes[0])
    assert drawn["20 tensor cores"].get_linestyle() != "-" == drawn["16 thin edge"].get_linestyle()
    figure = draw(dataset, "ladder")
    assert not any("×" in cell for cell in cells(figure.axes[0])["20 tensor cores"])
    assert "Below the dotted line: for reference, not ranked." in caption(figure)


@pytest.mark.slow
def test_datasets_side_by_side(dataset, tmp_path):
    other = made(tmp_path / "y", seed=1, device="nvidia-other", name="NVIDIA Other", speed=0.8, problems=synthetic.SMALL)
    drawn = {"nvidia-made-up": figures.View(*dataset, "warm"), "nvidia-other": figures.View(*other, "warm")}
    figure = figures.comparison(drawn)
    rates, ratios = figure.axes
    count = len(synthetic.SHARES)
    widths = [bar.get_width() for bar in rates.patches]
    assert np.divide(widths[count:], widths[:count]) == pytest.approx([0.8] * count, rel=0.02)
    widths = [bar.get_width() for bar in ratios.patches]
    assert np.divide(widths[count:], widths[:count]) == pytest.approx([1] * count, rel=0.03)
    assert {"nvidia-made-up: NVIDIA Made Up", "nvidia-other: NVIDIA Other"} <= set(words(figure))
    right = ratios.get_xlim()[1]
    assert 125 < right < 140  # the rungs can be told apart; what leaves the panel has its value written there
    assert [text.get_text() for text in ratios.texts] == [f"{width:.3g}" for width in widths if width > right] != []
    assert words(figure)[0] == "Best configurations at M = N = K = 4096, float32"


@pytest.mark.parametrize("which", ["performance", "ratio"])
def test_figures_of_points_say_where_their_configurations_stand(dataset, which):
    assert "Which configuration a point is: best.csv, index.html." in note(draw(dataset, which))


def test_ways_of_compiling_are_marked_as_other_values_are(compiled):
    found, environment = compiled
    summary = found["summary"].copy()
    nvcc = ~summary["configuration"].str.contains("nvrtc") & (summary["kernel"] == "03_shared_tile")
    summary.loc[nvcc, "marks"] = "throttled"
    figure = draw(({**found, "summary": summary}, environment), "compilers")
    (axes,) = figure.axes
    one, other = ({to_hex(edge) for edge in dots.get_edgecolors()} for dots in axes.collections)
    assert one == {MARKS["throttled"][1]}
    assert MARKS["throttled"][1] not in other
    assert "edge: throttled" in words(figure)
    assert "t: throttled" in note(figure)


@pytest.fixture(scope="module")
def oblong(tmp_path_factory):
    """One without squares."""
    problems, kernels = [(64, 2048, 4096), (256, 256, 16384)], ("03_shared_tile", "05_register_tile", "cublas")
    return made(tmp_path_factory.mktemp("data") / "x", problems=problems, kernels=kernels)


@pytest.mark.parametrize("which", ["performance", "ladder", "roofline", "parameters-03_shared_tile"])
def test_without_squares_the_largest_problem_is_drawn(oblong, which):
    figure = draw(oblong, which)
    assert which not in ("ladder", "roofline") or "at M = 256, N = 256, K = 16384 on" in words(figure)[0]


def test_the_ladder_is_shown_where_most_kernels_are_up_to_4096():
    rows = [{"kernel": k, "state": "warm", "tflops": 1.0, "m": m, "n": m, "k": m, "problem": str(m)}
            for k, most in (("a", 8192), ("b", 8192), ("c", 2048)) for m in (1024, 2048, 4096, 8192) if m <= most]  # fmt: skip
    assert tables.headline_problem(pd.DataFrame(rows)) == "2048"
    assert tables.headline_problem(pd.DataFrame(rows[:-2])) == "4096"
    assert tables.headline_problem(pd.DataFrame([row for row in rows if row["m"] == 8192])) == "8192"


@pytest.mark.slow
def test_element_types_are_drawn_apart(dataset, tmp_path, monkeypatch):
    found, environment = dataset
    both = {key: pd.concat([table, table.assign(element_type="float64")]) for key, table in found.items()}
    tasks = []
    monkeypatch.setattr(figures, "_draw_and_save", tasks.append)
    figures.draw_all(both, environment, tmp_path)
    stems = [stem.name for _, _, stem, _ in tasks]
    plain = [stem for stem in stems if "float64" not in stem]
    assert {"performance-warm", "ladder-cold", "ratio-warm", "accuracy-warm", "parameters-03_shared_tile-warm"} <= set(plain)
    assert {re.sub("-(warm|cold|sustained)$", r"-float64-\1", stem) for stem in plain} == set(stems) - set(plain)
    assert not [stem for stem in stems if stem.startswith(("parameters", "gpus", "energy")) and stem.endswith("cold")]
    for data, _, stem, _ in tasks:
        assert (data.peak is None) == ("float64" in stem.name)


BEGUN = get_context("fork").Semaphore(0)
"""How many figures are being drawn."""


def slow(task):
    BEGUN.release()
    signal.pause()


def drawing(*arguments):
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        figures.draw_all(*arguments)


def test_ctrl_c_while_figures_are_drawn_is_the_jobs_to_tell(dataset, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(figures, "_draw_and_save", slow)
    process = get_context("fork").Process(target=drawing, args=(*dataset, tmp_path, 2))
    process.start()
    assert all(BEGUN.acquire(timeout=60) for _ in range(2))
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: all of them get it
    process.join(20)
    assert process.exitcode == 0
    assert capfd.readouterr().err == ""


def test_a_state_in_which_all_was_skipped_is_not_drawn(dataset, tmp_path, monkeypatch):
    found, environment = dataset
    drawn = []
    monkeypatch.setattr(figures, "_draw_and_save", lambda task: drawn.append(task[2].name))
    best = found["best"]
    skipped = best[(best["state"] == "warm") | best["tflops"].isna()]
    figures.draw_all(found | {"best": skipped}, environment, tmp_path)
    assert "performance-warm" in drawn
    assert not [stem for stem in drawn if stem.endswith("-cold")]


@pytest.mark.slow
def test_the_same_data_give_the_same_bytes(compiled, tmp_path):
    data = figures.View(*compiled, "warm", 3.4)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        figures.save(figures.draw("ladder", data), tmp_path / folder / "x", ["pdf", "png"])
    for suffix in ("svg", "png", "pdf"):
        assert (tmp_path / "a" / f"x.{suffix}").read_bytes() == (tmp_path / "b" / f"x.{suffix}").read_bytes()


def test_the_environment_may_lack_what_is_of_gpus(compiled):
    found, environment = compiled
    plain = json.loads(json.dumps(environment)) | {"kind": "cpu"}
    plain["attributes"] = {"library": "openblas"}
    del plain["repeated_launch_us"], plain["launch_us"]
    told = note(draw((found, plain), "performance"))
    assert "GFLOP/s" in told
    assert "power limit" not in told
    assert "by lanes" not in told


def test_ways_of_compiling_are_compared_for_the_same_parameters_and_problem(dataset, compiled):
    summary = compiled[0]["summary"].set_index(["kernel", "configuration", "problem"])["ratio"]
    (axes,) = draw(compiled, "compilers").figure.axes
    assert axes.get_title(loc="left") == "compiler=nvrtc\nmaxrregcount=128"
    assert axes.get_xlabel() == "% faster than nvcc"
    for place, kernel in enumerate(("03_shared_tile", "05_register_tile")):
        labels = {label for name, label, _ in summary.index if name == kernel and "nvrtc" not in label}
        found = [100 * (summary[kernel, f"{label} compiler=nvrtc maxrregcount=128", problem] / summary[kernel, label, problem] - 1)
                 for label in labels for problem in (256, 4096)]  # fmt: skip
        dots = axes.collections[place].get_offsets()
        assert sorted(dots[:, 0]) == pytest.approx(sorted(found))
        assert axes.lines[place].get_xdata()[0] == pytest.approx(np.median(found))
    assert [figures.NEEDS["compilers"](figures.View(*given, "warm")) for given in (dataset, compiled)] == [False, True]


def test_the_headline_has_a_bar_for_each_rung_and_breaks_its_axis_beyond_the_baseline(dataset):
    tables, environment = dataset
    fast = tables["best"]["kernel"] == "16_thin_edge"
    beyond = tables | {"best": tables["best"].assign(ratio=tables["best"]["ratio"] * (1 + 3 * fast))}
    figure = figures.draw("headline", data := figures.View(beyond, environment, "warm"))
    rows = data.at(data.headline).loc[data.kernels]
    near, far = figure.axes
    for axes in figure.axes:
        assert [bar.get_width() for bar in axes.patches] == pytest.approx(100 * rows["ratio"].to_numpy())
    assert near.get_xlim() == (0, 125)
    assert far.get_xlim()[0] > 125
    assert sorted(words(figure)[2:]) == sorted(f"{100 * ratio:.3g} %" for ratio in rows["ratio"])
    assert [it.get_text()[-2:] for it in near.get_yticklabels()] == [kernel[:2] for kernel in rows.index]
    assert len(draw(dataset, "headline").axes) == 1
