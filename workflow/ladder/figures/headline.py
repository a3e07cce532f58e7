"""Draw the headline: each step of the ladder as a share of the baseline's throughput."""

import pandas as pd
from matplotlib.figure import Figure

from ladder.core.verdicts import plus_minus
from ladder.figures.data import View
from ladder.figures.layout import finish, inches, panels, rows_of
from ladder.figures.rungs import interval
from ladder.model.kernel_file import is_rung, known

FASTER, SLOWER = "#009e73", "#56b4e9"
SUSTAINED_AT = 0.27
"""Below the middle of a bar, whose height is 0.76."""
MOST = 12
"""The most rungs that all have a bar. Of more, only steps have one."""


def _label(kernel: str) -> str:
    """Return the idea of a rung and its number."""
    number, _, name = kernel.partition("_")
    header = known().get(kernel)
    return f"{(header and header.label) or name.replace('_', ' ')}  {number}"


def compared_with_baseline(data: View) -> pd.DataFrame:
    """Return the rows of the rungs that have a ratio to the baseline at the ladder's problem."""
    rows = data.at(data.headline)
    return rows[rows.index.isin(data.kernels) & rows["ratio"].notna()]


def steps(rows: pd.DataFrame) -> list[str]:
    """Return the rungs that are distinguishably faster than every rung before them, and what is no
    rung.
    """
    before = rows["ratio_high"].cummax().shift(fill_value=0)
    return [
        str(kernel)
        for kernel in rows.index[(rows["ratio_low"] > before) | ~rows.index.map(is_rung)]
    ]


def headline(data: View) -> Figure:
    """Draw a bar for each step of the ladder, without tensor cores if there are such rungs. The
    caption has the numbers of all others.
    """
    every, reference = compared_with_baseline(data), data.nice(data.reference)
    plain = every[every.index.isin(data.plain)]
    plain = plain if len(plain) else every
    rows = plain if len(plain) <= MOST else plain.loc[steps(plain)]
    shares = 100 * rows["ratio"]
    figure, (axes,) = panels(1, inches(1.5 * len(rows) + 3))
    figure.set_figwidth(7.7)  # a phone shows it 358 pixels wide: text is then 9 high
    colors = [FASTER if low > 1 else SLOWER for low in rows["ratio_low"]]
    axes.barh(range(len(rows)), shares, 0.76, color=colors, lw=0, zorder=2)
    axes.grid(axis="y", visible=False)
    for y, (length, text) in enumerate(zip(shares, rows.apply(share, axis=1), strict=True)):
        inside = 0.5 * max(shares) < length <= 100
        axes.text(
            length, y - 0.08, f" {text} ", va="center", ha="right" if inside else "left", zorder=4
        )
    held = data.sustained[data.sustained["problem"] == data.headline].set_index("kernel")
    for kernel in rows.index.intersection(held.index):
        low, high = 100 * held.loc[kernel, ["ratio_low", "ratio_high"]]
        interval(axes, low, high, rows.index.get_loc(kernel) + SUSTAINED_AT)
    axes.axvline(100, color="#000000", zorder=3)
    axes.set_xlim(0, 1.3 * max(100, *shares))
    rows_of(axes, [_label(str(kernel)) for kernel in rows.index])
    axes.set_xlabel(f"% of {reference} (line), {data.where()}")
    other = every.drop(rows.index)
    tensor = other.index.isin(data.plain)
    caption = [
        "Single launches. Green: faster, by the 95 % interval.",
        "Red: 95 % interval sustained, back to back; wide if its processes differ."
        if len(held)
        else "",
        _listed("On tensor cores", other[~tensor], held),
        _listed("No step up", other[tensor], held.iloc[:0]),
    ]
    where = " on CUDA cores" if len(data.plain) < len(data.kernels) else ""
    ends = f"From {shares.iloc[0]:.3g} % to {max(shares):.3g} %"
    return finish(
        figure, data, f"{ends} of {reference} in {len(rows)} steps{where}", caption=caption
    )


def share(row: pd.Series) -> str:
    """Return a share of the baseline with half of its interval."""
    return plus_minus(row["ratio"], row["ratio_low"], row["ratio_high"], True)


def _listed(what: str, rows: pd.DataFrame, held: pd.DataFrame) -> str:
    """Return a sentence with the shares of rungs, with those back to back in parentheses."""
    texts = [
        f"{str(kernel).partition('_')[0]} {share(row)}"
        + (f" ({share(held.loc[kernel])} sustained)" if kernel in held.index else "")
        for kernel, row in rows.iterrows()
    ]
    return f"{what}: {', '.join(texts)}." if texts else ""
