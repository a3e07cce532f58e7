"""Figures of made-up datasets, and what is drawn in them."""

import synthetic
from ladder.analysis.dataset import Dataset
from ladder.figures import draw as figures
from ladder.figures import selection
from ladder.figures.data import View
from ladder.storage import csv_files
from ladder.storage.dataset_layout import DRAWN_FROM
from rungs import ALL

_DRAWN = {}
"""The figures that were drawn, with the dataset of each: tests share them, and change none."""


def made(folder, **given):
    """The tables of a made-up dataset as figures read them, and its environment."""
    dataset = Dataset.open(synthetic.write(folder, **given), ALL.values())
    paths = {name: folder / f"{name}.csv" for name in DRAWN_FROM}
    dataset.write(paths)
    return selection.read(paths), dataset.environment


def written(tables, folder):
    """The paths of tables that are written as files."""
    paths = {name: folder / f"{name}.csv" for name in tables}
    for name, path in paths.items():
        csv_files.write_csv(tables[name], path)
    return paths


def changed(dataset, **tables):
    """The dataset with other tables in place of some."""
    return dataset[0] | tables, dataset[1]


def rows(dataset, table="best", **where):
    """The rows of a table that have a value, or one of several, in each of some columns; problems
    are their labels.
    """
    selection = dataset[0][table].astype({"problem": str})
    for column, value in where.items():
        selection = selection[selection[column].isin(value if isinstance(value, list) else [value])]
    return selection


def draw(dataset, name, state="warm"):
    key = id(dataset), name, state
    if key not in _DRAWN:
        _DRAWN[key] = dataset, figures.draw(name, View(*dataset, state))
    return _DRAWN[key][1]


def words(figure):
    """All text of a figure but its axes'."""
    holders = [*figure.axes, *figure.legends]
    texts = [*figure.texts, *(text for holder in holders for text in holder.texts)]
    return [text.get_text() for text in texts]


def caption(figure):
    return figure.texts[1].get_text().replace("\n", " ")


def note(figure):
    """The caption and the description, which is not drawn."""
    return f"{caption(figure)} {figure.get_label()}"


def heads(axes):
    """The headings of the table beside a panel."""
    return [
        text.get_text() for text in axes.texts if getattr(text, "xycoords", "") == "axes fraction"
    ]


def cells(axes):
    """The table beside a panel: the cells of each row, by the name on the y axis."""
    by_name = {text.get_text(): [] for text in axes.get_yticklabels()}
    for text in axes.texts:
        if getattr(text, "xycoords", "") == ("axes fraction", "data"):
            by_name[list(by_name)[int(text.xy[1])]].append(text.get_text())
    return by_name


def lines(axes):
    return {
        line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")
    }
