"""Draw the models beside hardware counters."""

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import SIZE, WIDTH, View
from ladder.figures.labels import LETTER
from ladder.figures.layout import finish, inches, logarithmic, panels, rows_of


def _size(rows: pd.DataFrame) -> Any:
    """Return the bytes of an element, for every row."""
    return rows["element_type"].map({name: element.size for name, element in ELEMENT_TYPES.items()})


COUNTED: dict[str, tuple[str, Callable[[pd.DataFrame], Any]]] = {
    "global_read_sectors": ("sectors of 32 B read by threads", lambda t: t["global_sectors"]),
    "l2_read_sectors": (
        "sectors of 32 B read from L2\n(model: none found in L1)",
        lambda t: t["global_sectors"],
    ),
    "shared_wavefronts": ("shared-memory wavefronts", lambda t: t["shared_wavefronts_model"]),
    "bank_conflicts": ("wavefronts added by bank conflicts", lambda t: t["bank_conflicts_model"]),
    "dram_read_bytes": (
        "bytes read from device memory\n(model: A and B once)",
        lambda t: _size(t) * t["k"] * (t["m"] + t["n"]),
    ),
    "instructions": (
        "instructions of warps\n(model: multiply-adds alone)",
        lambda t: t["flops"] / 64,
    ),
    "warps_percent": (
        "resident warps, % of the most\n(model: occupancy)",
        lambda t: 100 * t["occupancy"],
    ),
    "issue_percent": (
        "cycles in which an instruction was issued, %\n(no model)",
        lambda t: t["occupancy"] * np.nan,
    ),
}
"""The columns of `counters.csv` that are drawn: their labels, and the model's values."""


def counters(data: View, counts: pd.DataFrame) -> Figure:
    """Draw model and hardware counter: one panel per counter, one line per rung."""
    key = [name for name in data.key if name in counts]
    rows = counts.merge(data.models, on=key, how="left", suffixes=("", "_model"))
    names = [data.brief(kernel) for kernel in rows["kernel"]]
    figure, grid = panels(len(COUNTED), inches(1.3 * max(len(rows), 3) + 6), most=2)
    columns = int(0.8 * WIDTH / 2 * 72 / (LETTER * SIZE))
    for axes, (column, (label, model)) in zip(grid, COUNTED.items(), strict=True):
        percent = column.endswith("_percent")
        unit = 1 if percent else rows["flops"] / 2000
        decades = column in ("global_read_sectors", "l2_read_sectors", "shared_wavefronts")
        drawn = pd.DataFrame({"model": model(rows), "counted": rows[column]}).astype(float)
        drawn = drawn.replace(0, np.nan if decades else 0).div(unit, axis=0)
        style: dict[str, Any] = {"mew": 1.5, "clip_on": False}
        axes.plot(
            drawn["model"],
            range(len(names)),
            "s",
            color="#d55e00",
            mfc="none",
            ms=8.0,
            label="model",
            **style,
        )
        axes.plot(
            drawn["counted"],
            range(len(names)),
            "o",
            color="#0072b2",
            ms=5.0,
            label="counted",
            **style,
        )
        axes.set_title(
            "\n".join(line for part in label.split("\n") for line in textwrap.wrap(part, columns))
        )
        rows_of(axes, names)
        axes.set_xlabel("%" if percent else "per 1000 multiply-adds")
        # otherwise there is neither model nor count
        if decades and np.isfinite(axes.dataLim.minposx):
            logarithmic(axes, "x")
        else:
            axes.set_xlim(0, 105 if percent else None)
    missing, where = (
        rows["reason"].dropna(),
        f" at M = N = K = {rows['m'].iloc[0]}" if len(rows) else "",
    )
    counted = rows.loc[rows["reason"].isna(), "uuid"].unique()
    notes = [f"Counted on {', '.join(counted)}."] if len(counted) else []
    notes += (
        [f"{len(missing)} of {len(rows)} not counted: {missing.iloc[0][:150]}."]
        if len(missing)
        else []
    )
    handles = grid[0].get_legend_handles_labels()[0]
    return finish(
        figure,
        data,
        f"Model and hardware counters{where} on {data.environment['name']}",
        handles,
        notes,
    )
