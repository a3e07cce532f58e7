"""What all figures share: their size, names, captions and files; of made-up datasets."""

import contextlib
import os
import re
import signal
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from drawn import caption, changed, draw, legend, made, note, rows, words
from ladder.analysis import tables
from ladder.figures import draw as figures
from ladder.figures.data import View
from ladder.measuring import counters
from ladder.storage import csv_files

NAMES = [
    *(each for each in figures.FIGURES if each != "ratio"),
    "parameters-05_register_tile",
    "parameters-16_thin_edge",
]
"""Ratios are laid out as performance is."""


def boxes(figure):
    """The boxes of a figure's title, note, legend and panels, by name."""
    renderer = figure.canvas.get_renderer()
    artists = {"title": figure.texts[0], "note": figure.texts[1]} | {
        f"legend {i}": each for i, each in enumerate(figure.legends)
    }
    extents = {key: artist.get_window_extent(renderer) for key, artist in artists.items()}
    return extents | {
        f"panel {i}": axes.get_tightbbox(renderer) for i, axes in enumerate(figure.axes)
    }


@pytest.mark.parametrize(
    "which",
    [pytest.param(each, marks=[pytest.mark.slow] * (each != "performance")) for each in NAMES],
)
def test_a_figure_has_its_width_and_nothing_on_it_overlaps(request, which):
    of, state = (
        "compiled" if which == "compilers" else "dataset",
        "sustained" if which == "energy" else "warm",
    )
    figure = draw(request.getfixturevalue(of), which, state)
    figure.canvas.draw()
    assert figure.get_size_inches()[0] == 11
    assert figure.get_size_inches()[1] < 14
    assert figure.texts[1].get_text().count("\n") < 2
    extents, page = boxes(figure), figure.bbox
    for key, box in extents.items():
        assert min(box.x0 - page.x0, page.x1 - box.x1, box.y0 - page.y0, page.y1 - box.y1) > -1, (
            f"{key} leaves the page"
        )
        for other, its in extents.items():
            apart = (
                box.x1 <= its.x0 + 1
                or its.x1 <= box.x0 + 1
                or box.y1 <= its.y0 + 1
                or its.y1 <= box.y0 + 1
            )
            assert key == other or apart, f"{key} overlaps {other}"
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
            visible = [
                label for label in axis.get_ticklabels() if label.get_visible() and label.get_text()
            ]
            ends = sorted(
                (getattr(b, low), getattr(b, high))
                for b in (each.get_window_extent(renderer) for each in visible)
            )
            # what stands aslant has boxes that overlap
            if not any(label.get_rotation() % 90 for label in visible):
                assert all(b[0] >= a[1] - 0.5 for a, b in pairwise(ends)), [
                    t.get_text() for t in visible
                ]
    for text in [*figure.texts, *legend(figure)]:
        assert text.get_fontsize() >= 5.5, text.get_text()


@pytest.mark.slow
@pytest.mark.parametrize(("shapes", "below"), [(12, False), (40, True)])
def test_each_of_many_shapes_has_a_row_that_can_be_read(tmp_path, shapes, below):
    problems = [
        (1024,) * 3,
        (2048,) * 3,
        *((64 * each, 4096, 16384 - 64 * each) for each in range(1, shapes + 1)),
    ]
    figure = draw(
        made(tmp_path / "x", problems=problems, kernels=("03_shared_tile", "cublas"), processes=3),
        "ratio",
    )
    squares, others = figure.axes
    assert (others.get_position().y1 < squares.get_position().y0) == below
    renderer = figure.canvas.get_renderer()
    names = [each for each in others.texts if each.get_position()[0] == 1.01]
    assert len(names) == shapes
    for column in (others.get_yticklabels(), names):
        boxes = sorted(
            (each.get_window_extent(renderer) for each in column), key=lambda box: float(box.y0)
        )
        assert all(lower.y1 < upper.y0 for lower, upper in pairwise(boxes))
        assert all(figure.bbox.x0 < box.x0 and box.x1 < figure.bbox.x1 for box in boxes)


def test_the_environment_may_lack_what_is_of_gpus(compiled):
    environment = {"kind": "cpu", "attributes": {"library": "openblas"}}
    gpu_only = ("repeated_launch_us", "launch_us")
    plain = {key: value for key, value in compiled[1].items() if key not in gpu_only} | environment
    footer = note(draw((compiled[0], plain), "performance"))
    assert "GFLOP/s" in footer
    assert "power limit" not in footer
    assert "power limit 700 W" in note(draw(compiled, "performance"))


def test_intervals_that_say_nothing_have_no_width(dataset):
    wide = changed(dataset, best=dataset[0]["best"].assign(tflops_low=0.0, tflops_high=1e9))
    assert "Intervals: between-process, 95 %, not known; n = 40" in View(*wide, "warm").intervals()


@pytest.mark.slow
@pytest.mark.parametrize("reason", [None, "ncu is not on the PATH"])
def test_the_footer_of_the_counters_names_the_gpu_that_counted(dataset, reason):
    """It need not be the one that measured."""
    counted = rows(
        dataset, "models", problem="4096", kernel=["03_shared_tile", "05_register_tile"]
    ).drop_duplicates("kernel")
    counts = counted.reindex(columns=counters.COLUMNS).assign(uuid="GPU-other", reason=reason)
    counts[[*counters.METRICS, "bank_conflicts"]] = np.nan if reason else 7.0
    footer = note(figures.counters(View(*dataset, "warm"), counts))
    assert footer.startswith(
        "2 of 2 not counted: ncu is not on the PATH. " if reason else "Counted on GPU-other. "
    )


@pytest.fixture(scope="module")
def spoiled(compiled, tmp_path_factory):
    """One in which the confirmation found a kernel wrong, and nothing is marked; read from files,
    as figures are drawn.
    """
    folder, best = tmp_path_factory.mktemp("data"), compiled[0]["best"].copy()
    wrong = best["kernel"] == "05_register_tile"
    measured = best.columns[best.columns.get_loc("median_us") :].intersection(
        ["tflops", "ratio", "frobenius_error"]
    )
    best.loc[wrong, "status"], best.loc[wrong, measured] = "incorrect", np.nan
    for name, table in changed(compiled, best=best)[0].items():
        csv_files.write_csv(
            table.assign(marks="") if "marks" in table else table, folder / f"{name}.csv"
        )
    return {name: csv_files.read_csv(folder / f"{name}.csv") for name in compiled[0]}, compiled[1]


@pytest.mark.parametrize("name", list(figures.FIGURES))
def test_figures_without_marks_are_drawn_and_none_has_a_wrong_kernel(spoiled, name):
    data = View(*spoiled, "warm")
    if name not in figures.NEEDS or figures.NEEDS[name](data):
        figure = figures.draw(name, data)
        assert figure.axes
        assert not any("05 register tile" in text for text in words(figure))


@pytest.fixture(scope="module")
def oblong(tmp_path_factory):
    """One without squares."""
    problems, kernels = (
        [(64, 2048, 4096), (256, 256, 16384)],
        ("03_shared_tile", "05_register_tile", "cublas"),
    )
    return made(tmp_path_factory.mktemp("data") / "x", problems=problems, kernels=kernels)


@pytest.mark.parametrize(
    "which", ["performance", "ladder", "roofline", "parameters-03_shared_tile"]
)
def test_without_squares_the_largest_problem_is_drawn(oblong, which):
    figure = draw(oblong, which)
    assert (
        which not in ("ladder", "roofline")
        or "at M = 256, N = 256, K = 16384 on" in words(figure)[0]
    )


def test_the_ladder_is_shown_where_most_kernels_are_up_to_4096():
    rows = [
        {"kernel": k, "state": "warm", "tflops": 1.0, "m": m, "n": m, "k": m, "problem": str(m)}
        for k, most in (("a", 8192), ("b", 8192), ("c", 2048))
        for m in (1024, 2048, 4096, 8192)
        if m <= most
    ]
    assert tables.headline_problem(pd.DataFrame(rows)) == "2048"
    assert tables.headline_problem(pd.DataFrame(rows[:-2])) == "4096"
    assert (
        tables.headline_problem(pd.DataFrame([row for row in rows if row["m"] == 8192])) == "8192"
    )


def test_files_describe_themselves_and_captions_do_not(dataset, tmp_path):
    figure = draw(dataset, "ladder")
    figures.save(figure, tmp_path / "x")
    assert re.findall("<desc>(.*)</desc>", (tmp_path / "x.svg").read_text()) == [figure.get_label()]
    assert "commit 0000000000" in figure.get_label()
    assert "commit" not in caption(figure)


@pytest.mark.slow
def test_the_same_data_give_the_same_bytes(compiled, tmp_path):
    data = View(*compiled, "warm")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        figures.save(figures.draw("ladder", data), tmp_path / folder / "x", ["pdf", "png"])
    for suffix in ("svg", "png", "pdf"):
        assert (tmp_path / "a" / f"x.{suffix}").read_bytes() == (
            tmp_path / "b" / f"x.{suffix}"
        ).read_bytes()


@pytest.fixture
def drawn(dataset, tmp_path, monkeypatch):
    """Draws all figures of some tables in place of the dataset's; the tasks of which nothing is
    drawn.
    """
    tasks = []
    monkeypatch.setattr(figures, "_draw_and_save", tasks.append)

    def draw_all(**tables):
        figures.draw_all(*changed(dataset, **tables), tmp_path)
        return {stem.name: data for data, _, stem, _ in tasks}

    return draw_all


@pytest.mark.slow
def test_element_types_are_drawn_apart(dataset, drawn):
    tasks = drawn(
        **{
            key: pd.concat([table, table.assign(element_type="float64")])
            for key, table in dataset[0].items()
        }
    )
    plain = [stem for stem in tasks if "float64" not in stem]
    assert {
        "performance-warm",
        "ladder-cold",
        "ratio-warm",
        "accuracy-warm",
        "parameters-03_shared_tile-warm",
    } <= set(plain)
    assert {re.sub("-(warm|cold|sustained)$", r"-float64-\1", stem) for stem in plain} == set(
        tasks
    ) - set(plain)
    assert not [
        stem
        for stem in tasks
        if stem.startswith(("parameters", "gpus", "energy")) and stem.endswith("cold")
    ]
    assert all((data.peak is None) == ("float64" in stem) for stem, data in tasks.items())


def test_a_state_in_which_all_was_skipped_is_not_drawn(dataset, drawn):
    best = dataset[0]["best"]
    tasks = drawn(best=best[(best["state"] == "warm") | best["tflops"].isna()])
    assert "performance-warm" in tasks
    assert not [stem for stem in tasks if stem.endswith("-cold")]


def test_rates_are_drawn_of_one_distribution(dataset, drawn):
    """A campaign of many has each size many times; only errors have a place for that."""
    sparse = set(rows(dataset).query("k > 1000")["problem"])
    of = {True: "sparse", False: "uniform"}
    given = {name: rows(dataset, name) for name in ("summary", "best")}
    tasks = drawn(
        **{
            name: table.assign(distribution=table["problem"].isin(sparse).map(of))
            for name, table in given.items()
        }
    )
    rates = set(tasks["performance-warm"].order)
    assert rates and not rates & sparse
    assert set(tasks["accuracy-warm"].order) == rates
    assert set(tasks["distributions-warm"].order) == rates | sparse


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
