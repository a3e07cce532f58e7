"""Draw the ladder, rung by rung, and the energy that the rungs use."""

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ladder.figures.data import HATCHED, OUTSIDE, View, gain_text, hatches, letters, marks_note
from ladder.figures.layout import finish, inches, panels, side_by_side, text_size

SMALL = 0.85
"""The size of the text above a bar, relative to the text size of the figure."""
Bar = tuple[str, str, float, float, float, str]
"""A kernel, the text above its bar, its length with the ends of the interval, and the hatch."""


def _bars(axes: Axes, data: View, bars: Sequence[Bar]) -> None:
    """Draw a bar per kernel with its interval and the text above it; y is in inches.

    Bars of kernels that solve an easier problem may leave the panel.
    """
    easier = set(data.whole.loc[data.whole["precision"].notna(), "kernel"])
    colours, small, y = data.colours(), SMALL * text_size(data.width), 0.0
    thick = inches(0.75, small)
    for kernel, text, value, low, high, hatch in bars:
        lines = inches(text.count("\n") + 1, small)
        y += lines + thick / 2
        axes.barh(y, value, thick, color=colours[kernel], hatch=hatch, edgecolor="#ffffff", lw=0, zorder=2, label=kernel)
        axes.plot([low, high], [y, y], "|-", color="#d62728", ms=0.5 * small, mew=0.13 * small, lw=0.13 * small, zorder=3)
        above = axes.text(0, y - thick * 0.6, text, fontsize=small, va="bottom", ha="left", linespacing=1.1)
        above.set_in_layout(False)  # the text may be longer than the axis
        y += inches(0.8, small)
    axes.set_ylim(y, 0)
    axes.set_yticks([])
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(True)
    ranked = [bar for bar in bars if bar[0] not in easier] or bars
    axes.set_xlim(0, 1.02 * max(np.nanmax(bar[2:5]) for bar in ranked))


def _wrapped(data: View, texts: Sequence[str], wide: float) -> list[str]:
    """Return the texts wrapped to a width in inches."""
    columns = int(wide * 72 / (SMALL * text_size(data.width) * 0.62))
    return ["\n".join(textwrap.wrap(text, columns, subsequent_indent="     ")) for text in texts]


def _height(data: View, bars: Sequence[Bar]) -> float:
    """Return the height in inches of a panel of bars, with its axis and title."""
    size = text_size(data.width)
    lines = sum(bar[1].count("\n") + 1 for bar in bars)
    return inches(lines + 1.2 * len(bars), SMALL * size) + inches(4, size)


def _ends(value: float, low: float, high: float) -> tuple[float, float, float]:
    """Return a value with the ends of its interval; the value replaces an infinite end, which a single process gives."""
    return value, low, high if math.isfinite(high) else value


def ladder(data: View) -> Figure:
    """Draw every rung at the ladder's problem: its gain over the rung below, configuration, ties, marks, and mean over `View.common`."""
    rows, reference, common = data.at(data.headline), data.nice(data.reference), data.common()
    texts = []
    for kernel, row in rows.iterrows():
        kernel = str(kernel)
        words = [f"{data.label(kernel)}: {data.rate(row['tflops']):.3g} {data.unit}"]
        words += [gain_text(data.gain(kernel, data.headline))] if kernel in data.kernels else []
        mean = data.mean(kernel)
        share = f"{100 * row['ratio']:.3g} %" + (f" (mean {100 * mean:.3g} %)" if mean and kernel in data.kernels else "")
        words += [share, "as warm" if row["as_warm"] else ""]
        ties = [tie for tie in str(row["tied_with"]).split("; ") if tie and tie != "nan"]
        configuration = "" if data.in_column or row["configuration"] == "-" else f"{row['configuration']} and "
        words += [f"{configuration}{len(ties)} tied" if ties else configuration.removesuffix(" and ")]
        texts.append(", ".join(filter(None, [*words, letters(row)])))
    columns = ("tflops", "tflops_low", "tflops_high")
    bars = [
        (
            str(kernel),
            text,
            *_ends(*(float(data.rate(row[name])) for name in columns)),
            "...." if row["as_warm"] else hatches(row),
        )
        for text, (kernel, row) in zip(_wrapped(data, texts, data.width - 0.25), rows.iterrows(), strict=True)
    ]
    figure, (axes,) = panels(data, 1, _height(data, bars))
    _bars(axes, data, bars)
    axes.set_xlabel(f"{data.unit}; line: the interval")
    handles: list[Patch] = [HATCHED] if any(map(hatches, rows.to_dict("records"))) else []
    notes = [
        f"× and faster or slower: against the rung below, by direct pairs; %: of {reference}'s rate in the same rounds"
        + (
            f", in brackets the geometric mean over the {len(common)} problems that every rung has: {', '.join(common).replace('x', '×')}."
            if common
            else "."
        ),
        marks_note(rows.to_dict("records")),
        OUTSIDE if rows["precision"].notna().any() else "",
        "Dotted: timed warm, since cold makes no difference." if rows["as_warm"].any() else "",
    ]
    return finish(figure, data, f"The ladder at {data.where()} on {data.environment['name']}, {data.state}", handles, notes)


def energy(data: View) -> Figure:
    """Draw the operations per joule of every rung and baseline, on each problem where energy was counted.

    The line is the range of the processes. A bar has no line if only one process counted. A note names those without energy.
    """
    rows = data.best[data.best["tflop_per_j"].notna()]
    names = [str(problem) for problem in dict.fromkeys(rows["problem"])]
    none = data.best[data.best["tflop_per_j"].isna() & data.best["problem"].isin(names)].to_dict("records")
    wide = data.width / min(len(names), side_by_side(data.width), 3) - 0.3
    bars_of: dict[str, list[Bar]] = {}
    for problem in names:
        here = rows[rows["problem"] == problem].drop_duplicates("kernel").set_index("kernel")
        here = here.loc[[kernel for kernel in [*data.kernels, *data.baselines] if kernel in here.index]]
        texts = [f"{data.label(str(k))}: {row['tflop_per_j']:.3g} {letters(row)}".rstrip() for k, row in here.iterrows()]
        bars_of[problem] = []
        for text, (kernel, row) in zip(_wrapped(data, texts, wide), here.iterrows(), strict=True):
            value, joules = float(row["tflop_per_j"]), float(row["energy_j"])
            low, high = (value * joules / float(row[name]) for name in ("energy_high_j", "energy_low_j"))
            bars_of[problem].append((str(kernel), text, value, low, high, hatches(row)))
    figure, grid = panels(data, len(names), max(_height(data, bars) for bars in bars_of.values()))
    for axes, problem in zip(grid, names, strict=True):
        _bars(axes, data, bars_of[problem])
        axes.set_title(problem.replace("x", "×"))
        axes.set_xlabel("TFLOP/J, whole board; line: range of the processes")
    every, kind = rows.to_dict("records"), "The lines are the range of the processes in which energy was counted."
    kind += " What has none was counted in one." if rows["energy_low_j"].isna().any() else ""
    missing = ", ".join(f"{data.brief(str(row['kernel']))} at {row['problem']}" for row in none)
    outside = OUTSIDE if rows["precision"].notna().any() else ""
    handles = [HATCHED] if any(map(hatches, every)) else []
    return finish(
        figure,
        data,
        f"Energy of a GEMM on {data.environment['name']}: TFLOP/J",
        handles,
        [outside, marks_note(every), missing and f"Not counted: {missing}."],
        kind,
    )
