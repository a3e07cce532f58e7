"""Read the tables that figures are drawn from, in pieces: no more rows than figures can show."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder.analysis.kernel_model import KEY
from ladder.analysis.tables import headline_problem
from ladder.model.baselines import is_baseline
from ladder.storage import csv_files

KERNELS, PROBLEMS = 40, 40
"""The most kernels of an element type in figures besides the baselines, and the most squares and
the most other shapes of a distribution and layout.
"""
COLUMNS = {
    *KEY,
    *("problem", "distribution", "state", "status", "reason", "stop", "marks", "interval"),
    *("precision", "tensor_cores", "reference", "samples", "processes", "process", "round"),
    *("layout", "tflops", "tflops_low", "tflops_high", "ratio", "ratio_low", "ratio_high", "uuid"),
    *("frobenius_error", "component_error", "component_bound", "throttled_share", "low", "high"),
    *("energy_j", "energy_low_j", "energy_high_j", "tflop_per_j", "pair", "other", "verdict"),
    *("time_us", "reference_us", "median_us", "flops", "intensity", "compulsory_intensity"),
    *("issue_tflops", "occupancy", "global_sectors", "shared_wavefronts", "bank_conflicts"),
}
"""The columns that figures need."""


def evenly(count: int, most: int) -> Any:
    """Return at most `most` of the places 0 to `count` - 1, evenly spaced, with both ends."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))


def _left_out(best: pd.DataFrame) -> tuple[set[str], set[str]]:
    """Return the kernels and the problems that figures leave out. They show the kernels of each
    element type that are fastest at the ladder's problem, and problems of all sizes.
    """
    work = best["m"].astype(float) * best["n"] * best["k"] * best.get("batch", 1)
    best = best.assign(work=work, square=best["problem"].str.isdigit())
    kernels, problems = set(filter(is_baseline, best["kernel"])), set()
    for _, typed in best.groupby("element_type"):
        rates = typed["tflops"].fillna(0)
        if rates.any():
            headline = headline_problem(typed)
            problems.add(headline)
            rates = rates.where(typed["problem"] == headline, 0)
        rates = rates[~typed["kernel"].isin(kernels)]
        kernels |= set(rates.groupby(typed["kernel"]).max().nlargest(KERNELS).index)
    alike = ["element_type", "distribution", "square", *best.columns.intersection(["layout"])]
    for _, rows in best.sort_values("work").groupby(alike):
        labels = rows["problem"].unique()
        problems |= set(labels[evenly(len(labels), PROBLEMS)])
    return set(best["kernel"]) - kernels, set(best["problem"]) - problems


def read(paths: Mapping[str, Path]) -> dict[str, pd.DataFrame]:
    """Return the tables in files by name, those of `dataset_layout.DRAWN_FROM`, with the rows that
    figures show.

    `best` has another column, `shown`: a sentence about what is left out, or "". Raises
    `InputError` for a file that is no table.
    """
    best = csv_files.read_csv(paths["best"], columns=COLUMNS).astype({"problem": str})
    kernels, problems = _left_out(best)
    text = ""
    if kernels or problems:
        every, sizes = best["kernel"].nunique(), best["problem"].nunique()
        text = (
            f"Shown: {every - len(kernels)} of {every} kernels, the fastest at the ladder's "
            f"problem, and {sizes - len(problems)} of {sizes} problems."
        )

    def keep(rows: pd.DataFrame, every_kernel: bool = False) -> pd.DataFrame:
        shown = ~rows["problem"].astype(str).isin(problems)
        return rows[shown & (every_kernel | ~rows["kernel"].isin(kernels))]

    # the reference's times beside kernels that are not shown say how GPUs differ, too
    tables = {
        name: csv_files.read_csv(
            path, columns=COLUMNS, keep=partial(keep, every_kernel=name == "references")
        )
        for name, path in paths.items()
    }
    return tables | {"best": keep(best).assign(shown=text)}
