"""Draw all figures from a dataset's tables and environment, without a device. Each family of
figures has a module.

Figures are written as SVG, and as PDF and PNG on request. The same data give the same bytes.
"""

import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import pandas as pd
from matplotlib.figure import Figure

from ladder.core.errors import InputError
from ladder.figures.accuracy import accuracy, distributions
from ladder.figures.changes import changes
from ladder.figures.compilers import compared, compilers
from ladder.figures.counters import counters
from ladder.figures.data import View
from ladder.figures.devices import comparison, gpus, on_all
from ladder.figures.headline import compared_with_baseline, headline
from ladder.figures.layout import save, style
from ladder.figures.parameters import parameters
from ladder.figures.roofline import issue, modeled, roofline
from ladder.figures.rungs import energy, ladder
from ladder.figures.scaling import MANY, performance
from ladder.figures.shapes import fastest_rungs, shapes
from ladder.model.baselines import is_baseline
from ladder.model.campaign import SUSTAINED

FIGURES: dict[str, Callable[[View], Figure]] = {
    "headline": headline,
    "performance": performance,
    "shapes": shapes,
    "ladder": ladder,
    "roofline": roofline,
    "issue": issue,
    "accuracy": accuracy,
    "distributions": distributions,
    "energy": energy,
    "gpus": gpus,
    "compilers": compilers,
}
NEEDS: dict[str, Callable[[View], bool]] = {
    "headline": lambda data: data.state == "warm" and len(compared_with_baseline(data)) > 0,
    "performance": lambda data: bool(data.best["square"].any()) or len(data.shapes) <= MANY,
    "issue": lambda data: len(modeled(data)) > 0,
    "shapes": lambda data: len(data.shapes) > MANY and len(fastest_rungs(data)) > 0,
    "accuracy": lambda data: bool(
        (data.best["frobenius_error"] > 0).any()
    ),  # its axes are logarithmic
    "distributions": lambda data: (
        data.best.loc[data.best["frobenius_error"].notna(), "distribution"].nunique() > 1
    ),
    "energy": lambda data: bool(data.at(data.headline)["energy_j"].notna().any()),
    "gpus": lambda data: on_all(data)["uuid"].nunique() > 1,
    "compilers": lambda data: len(compared(data)) > 0,
}
"""Whether a figure has anything to draw; figures that are not listed always have."""
OF_SUSTAINED = ("ladder", "energy")
"""The figures of launches back to back, which are measured on a few problems only."""
ANY_OPERANDS = ("distributions", "compilers")
"""Figures that show all distributions of operands. The others have no place for them and show the
first one.
"""

TASKS: list[tuple[View, str, Path, Sequence[str]]] = []
"""What the processes draw. They inherit the tables, which would take longer to send."""


def draw(name: str, data: View) -> Figure:
    """Return the figure of a name: one of `FIGURES`, or `parameters-<kernel>`. Raises `InputError`
    for any other name.
    """
    style()
    if name.startswith("parameters-"):
        return parameters(data, name.removeprefix("parameters-"))
    if name not in FIGURES:
        raise InputError(
            f"unknown figure {name}; expected {', '.join(FIGURES)} or parameters-<kernel>"
        )
    return FIGURES[name](data)


def draw_all(
    tables: Mapping[str, pd.DataFrame],
    environment: Mapping[str, Any],
    folder: Path,
    threads: int = 1,
    formats: Sequence[str] = (),
    names: Collection[str] | None = None,
) -> None:
    """Draw every figure that `plan` returns, and write it in SVG and in `formats`."""
    folder.mkdir(parents=True, exist_ok=True)
    # the longest first: no process ends long after the others
    TASKS[:] = sorted(
        (
            (data, name, folder / stem, formats)
            for stem, (data, name) in plan(tables, environment, names).items()
        ),
        key=lambda task: task[1].startswith("parameters-"),
    )
    # Ctrl-C ends these processes without a traceback each; the job reports it. Not `map`, which
    # would cancel pending tasks: the pool's own thread then finds its processes gone and sometimes
    # prints a traceback.
    ended = signal.SIGINT, signal.SIG_DFL
    with ProcessPoolExecutor(
        threads, mp_context=get_context("fork"), initializer=signal.signal, initargs=ended
    ) as pool:
        for drawing in [pool.submit(_draw_and_save, place) for place in range(len(TASKS))]:
            drawing.result()


def plan(
    tables: Mapping[str, pd.DataFrame],
    environment: Mapping[str, Any],
    names: Collection[str] | None = None,
) -> dict[str, tuple[View, str]]:
    """Return the data and the name of every figure of a dataset, or of those with these `names`, by
    its file's name without a suffix: `<figure>-<state>`.

    For element types other than float32 that is `<figure>-<element type>-<state>`. `tables` are
    those of `DRAWN_FROM`.
    """
    planned = {}
    for element_type, state in product(
        *(dict.fromkeys(tables["best"][column]) for column in ("element_type", "state"))
    ):
        which = state if element_type == "float32" else f"{element_type}-{state}"
        typed = _only(tables, "element_type", [element_type])
        # the sweep covers the first state only
        swept = typed["summary"][typed["summary"]["state"] == state]
        tried = swept.groupby("kernel", sort=False)["configuration"].nunique()
        sweeps = [
            f"parameters-{kernel}" for kernel in tried.index[tried > 1] if not is_baseline(kernel)
        ]
        wanted = [
            name
            for name in (OF_SUSTAINED if state == SUSTAINED else (*FIGURES, *sweeps))
            if names is None or f"{name}-{which}" in names
        ]
        if not wanted:
            continue
        operands = typed["summary"].set_index("problem")["distribution"]
        alike = _only(typed, "problem", operands.index[operands == operands.iloc[0]])
        whole, data = (View(given, environment, state) for given in (typed, alike))
        # no kernel has a rate: all are incorrect, or `cold` as `warm`
        if all(map(is_baseline, whole.best["kernel"])):
            continue
        for name in wanted:
            drawn = whole if name in ANY_OPERANDS else data
            if name not in NEEDS or NEEDS[name](drawn):
                planned[f"{name}-{which}"] = drawn, name
    return planned


def _draw_and_save(place: int) -> None:
    data, name, stem, formats = TASKS[place]
    save(draw(name, data), stem, formats)


def _only(
    tables: Mapping[str, pd.DataFrame], column: str, values: Iterable[Any]
) -> dict[str, pd.DataFrame]:
    """Return the rows of tables that have one of these values in a column, as text; all rows of a
    table without it.
    """
    kept = set(map(str, values))
    return {
        name: table[table[column].astype(str).isin(kept)] if column in table else table
        for name, table in tables.items()
    }


def draw_counters(
    counts: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    environment: Mapping[str, Any],
    stem: Path,
    formats: Sequence[str] = (),
) -> None:
    """Draw the models and the hardware counters, and write the figure as `stem`, in SVG and other
    formats.
    """
    style()
    save(
        counters(View(tables, environment, str(tables["summary"]["state"].iloc[0])), counts),
        stem,
        formats,
    )


def draw_comparison(
    datasets: Mapping[str, Mapping[str, pd.DataFrame]],
    environments: Mapping[str, Mapping[str, Any]],
    stem: Path,
    formats: Sequence[str] = (),
) -> None:
    """Draw datasets side by side, in the first element type and state measured. The tables of each
    are those of `DRAWN_FROM`.
    """
    style()
    drawn = {}
    for name, tables in datasets.items():
        first = tables["summary"].iloc[0]
        drawn[name] = View(
            _only(tables, "element_type", [first["element_type"]]),
            environments[name],
            str(first["state"]),
        )
    save(comparison(drawn), stem, formats)


def draw_changes(
    rows: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    environment: Mapping[str, Any],
    other: str,
    stem: Path,
    formats: Sequence[str] = (),
) -> None:
    """Draw what changed from a dataset to another, by the rows of `compare.changes`, for the first
    element type.

    `tables` are those of `DRAWN_FROM` for the first dataset; `other` is the name of the second. The
    figure is written as `stem`, in SVG and other formats.
    """
    style()
    first = str(rows["element_type"].iloc[0])
    data = View(_only(tables, "element_type", [first]), environment, str(rows["state"].iloc[0]))
    save(changes(data, rows[rows["element_type"] == first], other), stem, formats)
