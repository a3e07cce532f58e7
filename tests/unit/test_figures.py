"""Figures of campaigns that are not the published one: no squares, several element types."""

import json

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from ladder import figures, tables
from ladder.environment import ROOT

H200 = ROOT / "results" / "published" / "nvidia-h200"


@pytest.fixture
def dataset():
    """The published H200 tables, by name, of state `warm` only, and their environment."""
    found = {name: tables.read_csv(H200 / f"{name}.csv") for name in ("summary", "best", "models")}
    found = {name: table[table["state"] == "warm"] if "state" in table else table for name, table in found.items()}
    return found, json.loads((H200 / "environment.json").read_text())


def title(figure):
    return figure.get_suptitle()


@pytest.mark.parametrize("name", list(figures.FIGURES))
def test_a_campaign_without_squares_is_drawn_at_its_largest_problem(dataset, name):
    found, environment = dataset
    thin = {key: table[(table["m"] != table["n"]) | (table["n"] != table["k"])] for key, table in found.items()}
    data = figures.Dataset(thin["summary"], thin["best"], thin["models"], environment, "warm")
    largest = thin["best"].loc[(thin["best"]["m"] * thin["best"]["n"] * thin["best"]["k"]).idxmax()]
    figure = figures.draw(name, data)
    if name in ("ladder", "roofline"):
        assert f"at M = {largest['m']}, N = {largest['n']}, K = {largest['k']} on" in title(figure)


def test_the_ladder_is_drawn_at_the_largest_square_that_every_kernel_has(dataset):
    found, environment = dataset
    best = found["best"]
    squares = sorted(set(best.loc[(best["m"] == best["n"]) & (best["n"] == best["k"]), "m"]))
    fewer = best[(best["m"] < squares[-1]) | (best["kernel"] != "03_shared_tile")]
    data = figures.Dataset(found["summary"], fewer, found["models"], environment, "warm")
    assert f"at M = N = K = {squares[-2]} on" in title(figures.draw("ladder", data))


def test_element_types_are_drawn_apart(dataset, tmp_path, monkeypatch):
    found, environment = dataset
    both = [pd.concat([table, table.assign(element_type="float64")]) for table in found.values()]
    drawn = {}

    def keep(figure, stem):
        drawn[stem.name] = figure
        plt.close(figure)

    monkeypatch.setattr(figures, "save", keep)
    figures.draw_all(*both, environment, tmp_path)
    names = [name for name in drawn if "float64" not in name]
    assert {"performance-warm", "ladder-warm", "roofline-warm", "parameters-03_shared_tile-warm"} <= set(names)
    assert {name.replace("-warm", "-float64-warm") for name in names} == set(drawn) - set(names)
    for name, peak in (("performance-warm", True), ("performance-float64-warm", False), ("roofline-float64-warm", False)):
        figure = drawn[name]
        told = [text.get_text() for text in (*figure.axes[0].texts, *(figure.legends[0].get_texts() if figure.legends else []))]
        assert any("measured FP32 peak" in text for text in told) == peak, told


def test_a_state_in_which_all_was_skipped_is_not_drawn(dataset, tmp_path, monkeypatch):
    """As on a campaign of long launches only, whose `cold` is as `warm`."""
    found, environment = dataset
    drawn = []
    monkeypatch.setattr(figures, "_draw_and_save", lambda task: drawn.append(task[2].name))
    skipped = found["summary"].assign(state="cold", status="skipped", tflops=float("nan"), reference_us=float("nan"))
    summary = pd.concat([found["summary"], skipped])
    figures.draw_all(summary, found["best"], found["models"], environment, tmp_path)
    assert "performance-warm" in drawn
    assert not [name for name in drawn if name.endswith("-cold")]
