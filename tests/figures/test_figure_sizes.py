"""Figures of large campaigns: what is drawn does not grow with what was measured."""

import pandas as pd
import pytest
from drawn import caption, changed, draw, rows, written
from ladder.figures import draw as figures
from ladder.figures import selection
from ladder.figures.data import View
from ladder.storage import csv_files

KERNEL = "05_register_tile"


def many(row, **columns):
    """A row many times, with the values that some columns have in each copy."""
    copies = pd.concat([row] * len(next(iter(columns.values()))), ignore_index=True)
    return copies.assign(**columns)


@pytest.mark.parametrize("count", [100, 1000])
def test_of_many_configurations_the_best_and_some_others_are_drawn(dataset, count):
    row = rows(dataset, "summary", kernel=KERNEL, problem="4096").iloc[[0]]
    rates = [float(count - place) for place in range(count)]
    labels = [f"TM={place}" for place in range(count)]
    configurations = many(row, configuration=labels, tflops=rates)
    others = rows(dataset, "summary").query("kernel != @KERNEL")
    figure = draw(
        changed(dataset, summary=pd.concat([others, configurations])), f"parameters-{KERNEL}"
    )
    beside = [text for text in figure.axes[0].texts if hasattr(text, "xycoords")]
    shown = [int(text.get_text()) for text in beside if text.get_text().isdigit()]
    assert shown[:15] == list(range(15))
    assert (len(set(shown)), shown[-1]) == (30, count - 1)
    assert f"The 15 of {count} configurations with the highest mean" in caption(figure)
    assert figure.get_figheight() < 14


@pytest.fixture(params=[60, 600])
def large(dataset, request, tmp_path, monkeypatch):
    """The paths of tables of many kernels and problems, which are read in several pieces."""
    monkeypatch.setattr(csv_files, "PIECE", 1000)
    best = rows(dataset, kernel=KERNEL, problem="4096", state="warm").iloc[[0]]
    sizes = [16 * place for place in range(1, request.param + 1)]
    kernels = [f"{place:03}_made" for place in range(request.param)]
    last = many(best, kernel=kernels, tflops=[float(place) for place in range(request.param)])
    every = many(last.iloc[[-1]], m=sizes, n=sizes, k=sizes, problem=list(map(str, sizes)))
    tables = {
        name: pd.concat([dataset[0][name].iloc[:1], last, every])[list(dataset[0][name])]
        for name in ("best", "summary")
    }
    return written(dataset[0] | tables, tmp_path), request.param


def test_the_fastest_kernels_and_some_problems_of_all_sizes_are_read(dataset, large):
    paths, count = large
    tables = selection.read(paths)
    for name in ("best", "summary"):
        kernels = set(tables[name]["kernel"])
        assert len(kernels) == 40
        assert {f"{place:03}_made" for place in range(count - 39, count)} <= kernels
        problems = set(tables[name]["problem"].astype(str))
        assert {"16", "4096"} <= problems
        assert len(problems) <= 42
    planned = figures.plan(tables, dataset[1])
    assert sum(stem.startswith("parameters-") for stem in planned) <= 40
    figure = figures.draw("ladder", View(tables, dataset[1], "warm"))
    assert f"Shown: 40 of {count + 1} kernels, the fastest" in caption(figure)


def test_pieces_give_the_same_tables_as_whole_files(dataset, tmp_path, monkeypatch):
    paths = written({name: table.assign(more=0) for name, table in dataset[0].items()}, tmp_path)
    whole = selection.read(paths)
    monkeypatch.setattr(csv_files, "PIECE", 100)
    for name, table in selection.read(paths).items():
        assert len(table) == len(dataset[0][name])
        text = {"problem": str}
        pd.testing.assert_frame_equal(
            table.astype(text), whole[name].astype(text), check_dtype=False
        )
        assert "more" not in table


@pytest.mark.parametrize("count", [50, 500])
def test_of_many_changes_the_largest_are_drawn(dataset, count):
    row = pd.DataFrame({"kernel": [KERNEL], "state": ["warm"], "sure": [True]})
    changes = many(
        row,
        problem=[str(place) for place in range(count)],
        ratio=[1 + place / count for place in range(count)],
        verdict=["faster"] * (count - 1) + ["same"],
    )
    figure = figures.changes(View(*dataset, "warm"), changes, "b")
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert labels == [str(place) for place in range(count - 10, count - 1)]
    assert f"Of {count} problems, 9." in caption(figure)


@pytest.mark.parametrize("count", [9, 90])
def test_of_many_datasets_some_are_drawn_side_by_side(dataset, count):
    data = View(*dataset, "warm")
    figure = figures.comparison({f"d{place:02}": data for place in range(count)})
    assert len(figure.axes[0].patches) == 8 * len(data.names)
    assert f"8 of {count} datasets" in caption(figure)
