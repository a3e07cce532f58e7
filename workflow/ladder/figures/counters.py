"""Draw the models beside hardware counters."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ladder.analysis.kernel_model import KEY
from ladder.core.types import ELEMENT_TYPES
from ladder.figures.data import View
from ladder.figures.layout import finish, inches, logarithmic, panels, rows_of

COUNTED = {
    "global_read_sectors": ("sectors of 32 B\nread by threads", "global_sectors"),
    "l2_read_sectors": ("sectors of 32 B read from L2\n(model: none in L1)", "global_sectors"),
    "shared_wavefronts": ("shared-memory wavefronts", "shared_wavefronts_model"),
    "bank_conflicts": ("wavefronts added\nby bank conflicts", "bank_conflicts_model"),
    "dram_read_bytes": ("bytes read from memory\n(model: A and B once)", "size * k * (m + n)"),
    "instructions": ("instructions of warps\n(model: multiply-adds)", "flops / 64"),
    "warps_percent": ("resident warps, %\n(model: occupancy)", "100 * occupancy"),
    "issue_percent": ("cycles with an instruction\nissued, % (no model)", ""),
}
"""The columns of `counters.csv` that are drawn: their labels, and what the model says, in columns of
`models.csv` and `size`, the bytes of an element.
"""
LOGARITHMIC = ("global_read_sectors", "l2_read_sectors", "shared_wavefronts")


def counters(data: View, counts: pd.DataFrame) -> Figure:
    """Draw model and hardware counter: one panel per counter, one line per rung."""
    rows = counts.merge(data.models, on=KEY, how="left", suffixes=("", "_model"))
    rows = rows.assign(size=[ELEMENT_TYPES[name].size for name in rows["element_type"]])
    names = [data.brief(kernel) for kernel in rows["kernel"]]
    figure, grid = panels(len(COUNTED), inches(1.2 * max(len(rows), 3) + 6), most=4)
    for axes, (column, (label, model)) in zip(grid, COUNTED.items(), strict=True):
        percent = column.endswith("_percent")
        for values, marker, color, name in (
            (rows.eval(model) if model else np.nan, "s", "#d55e00", "model"),
            (rows[column].astype(float), "o", "#0072b2", "counted"),
        ):
            shown = np.full(len(rows), values) / (1 if percent else rows["flops"] / 2000)
            clipped = column in LOGARITHMIC  # which has no place for 0
            axes.plot(
                shown,
                range(len(rows)),
                marker,
                color=color,
                mfc="none",
                label=name,
                clip_on=clipped,
            )
        axes.set_title(label)
        rows_of(axes, names)
        axes.set_xlabel("%" if percent else "per 1000 multiply-adds")
        # otherwise there is neither model nor count
        if column in LOGARITHMIC and np.isfinite(axes.dataLim.minposx):
            logarithmic(axes, "x")
        else:
            axes.set_xlim(0, 105 if percent else None)
    missing = rows["reason"].dropna()
    counted = rows.loc[rows["reason"].isna(), "uuid"].unique()
    notes = [
        f"Counted on {', '.join(counted)}." if len(counted) else "",
        f"{len(missing)} of {len(rows)} not counted: {missing.iloc[0][:150]}."
        if len(missing)
        else "",
    ]
    where = f" at M = N = K = {rows['m'].iloc[0]}" if len(rows) else ""
    handles = grid[0].get_legend_handles_labels()[0]
    title = f"Model and hardware counters{where} on {data.device}"
    return finish(figure, data, title, handles, notes)
