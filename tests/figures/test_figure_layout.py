"""What all figures share: their size, names, captions and files; of made-up datasets."""

import contextlib
import os
import signal
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from drawn import caption, changed, draw, made, note, rows, words
from ladder.analysis import tables
from ladder.figures import draw as figures
from ladder.figures.data import View
from ladder.measuring import counters
from waiting import LIMIT

NAMES = [*figures.FIGURES, "parameters-05_register_tile", "parameters-16_thin_edge"]


def extents(figure):
    """The boxes of a figure's title, note, legend and panels."""
    renderer = figure.canvas.get_renderer()
    texts = [text.get_window_extent(renderer) for text in (*figure.texts[:2], *figure.legends)]
    return [*texts, *(axes.get_tightbbox(renderer) for axes in figure.axes)]


@pytest.mark.parametrize(
    "which",
    [pytest.param(name, marks=[pytest.mark.slow] * (name != "performance")) for name in NAMES],
)
def test_nothing_of_a_figure_overlaps_or_leaves_the_page(request, which):
    given = request.getfixturevalue("compiled" if which == "compilers" else "dataset")
    figure = draw(given, which, "sustained" if which == "energy" else "warm")
    figure.canvas.draw()
    boxes, page = extents(figure), figure.bbox.padded(1)
    for box in boxes:
        assert page.containsx(box.x0) and page.containsx(box.x1)
        assert page.containsy(box.y0) and page.containsy(box.y1)
        assert box.padded(-1).count_overlaps(boxes) == 1  # itself
    renderer = figure.canvas.get_renderer()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        labels = [label for label in axis.get_ticklabels() if label.get_text()]
        # what stands aslant has boxes that overlap
        if not any(label.get_rotation() % 90 for label in labels):
            extent = [label.get_window_extent(renderer).padded(-0.5) for label in labels]
            assert all(box.count_overlaps(extent) == 1 for box in extent)


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
    said = "2 of 2 not counted: ncu is not on the PATH." if reason else "Counted on GPU-other."
    assert said in footer


@pytest.fixture(scope="module")
def spoiled(compiled):
    """One in which the confirmation found a kernel wrong, and nothing is marked."""
    best = compiled[0]["best"].copy()
    wrong = best["kernel"] == "05_register_tile"
    best.loc[wrong, "status"] = "incorrect"
    best.loc[wrong, ["tflops", "ratio", "frobenius_error"]] = np.nan
    tables = compiled[0] | {"best": best}
    marked = {name: table for name, table in tables.items() if "marks" in table}
    return changed(compiled, **{name: table.assign(marks=None) for name, table in marked.items()})


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
    return made(
        tmp_path_factory.mktemp("data") / "x",
        problems=[(64, 2048, 4096), (256, 256, 16384)],
        kernels=("03_shared_tile", "05_register_tile", "cublas"),
    )


@pytest.mark.parametrize(
    "which", ["performance", "ladder", "roofline", "parameters-03_shared_tile"]
)
def test_without_squares_the_largest_problem_is_drawn(oblong, which):
    figure = draw(oblong, which)
    assert which not in ("ladder", "roofline") or "256 × 256 × 16384" in figure.axes[0].get_xlabel()


def test_of_many_problems_without_a_square_there_is_no_performance(oblong, monkeypatch):
    monkeypatch.setattr(figures, "MANY", 1)
    assert "performance-warm" not in figures.plan(*oblong)


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


@pytest.mark.slow
def test_files_describe_themselves_and_the_same_data_give_the_same_bytes(compiled, tmp_path):
    data, written = View(*compiled, "warm"), []
    for _ in range(2):
        figure = figures.draw("ladder", data)
        figures.save(figure, tmp_path / "x", ["pdf", "png"])
        written.append(
            [(tmp_path / f"x.{suffix}").read_bytes() for suffix in ("svg", "pdf", "png")]
        )
    assert written[0] == written[1]
    assert f"<desc>{figure.get_label()}</desc>".encode() in written[0][0]
    assert "commit 0000000000" in figure.get_label()
    assert "commit" not in caption(figure)


def test_a_state_in_which_all_was_skipped_is_not_drawn(dataset):
    best = dataset[0]["best"]
    planned = figures.plan(
        *changed(dataset, best=best[(best["state"] == "warm") | best["tflops"].isna()])
    )
    assert "performance-warm" in planned
    assert not [stem for stem in planned if stem.endswith("-cold")]


def test_without_an_error_there_is_none_to_draw(dataset):
    exact = dataset[0]["best"].assign(frobenius_error=0.0, component_error=0.0)
    planned = figures.plan(*changed(dataset, best=exact))
    assert "accuracy-warm" in figures.plan(*dataset)
    assert "accuracy-warm" not in planned


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
    assert all(BEGUN.acquire(timeout=LIMIT) for _ in range(2))
    os.killpg(process.pid, signal.SIGINT)  # as the terminal does: all of them get it
    process.join(LIMIT)
    assert process.exitcode == 0
    assert capfd.readouterr().err == ""
