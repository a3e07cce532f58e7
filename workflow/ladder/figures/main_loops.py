"""Show what the main loop of each rung spends its instructions on."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from ladder.core.places import HOME
from ladder.figures.layout import arrange, panels, save_drawing

DRAWING = HOME / "docs" / "img" / "slots.svg"
COLORS = {"FFMA": "#009E73", "LDS": "#56B4E9", "LDG": "#E69F00", "other": "#CFCFCF"}
MEANINGS = (
    "FFMA: the work",
    "LDS: shared-memory loads",
    "LDG: global loads",
    "addresses, checks, barriers",
)


def draw(rows: Mapping[str, Mapping[str, int]]) -> Figure:
    """Draw the mix of instructions of rungs, counts by kind of each by its label: a bar a rung, in
    percent, with the counts.
    """
    figure, (axes,) = panels(1, 4.6)
    for place, counts in enumerate(rows.values()):
        start = 0.0
        for (kind, count), meaning in zip(counts.items(), MEANINGS, strict=True):
            width = 100 * count / sum(counts.values())
            axes.barh(
                place,
                width,
                left=start,
                color=COLORS[kind],
                height=0.74,
                label=meaning if place == 0 else None,
            )
            if width > 4.4:
                axes.text(start + width / 2, place, str(count), ha="center", va="center")
            start += width
    axes.set(yticks=range(len(rows)), yticklabels=list(rows), xlim=(0, 100))
    axes.set_xlabel("% of the main loop's instructions (sm_90; numbers: counts)")
    axes.invert_yaxis()
    handles, _ = axes.get_legend_handles_labels()
    shares = {label: 100 * counts["FFMA"] / sum(counts.values()) for label, counts in rows.items()}
    title = ""
    if shares:
        low, last = min(shares, key=shares.__getitem__), list(shares)[-1]
        title = (
            f"Multiply-adds: {shares[low]:.0f} % of the loop in rung {low[-2:]}, "
            f"{shares[last]:.0f} % in rung {last[-2:]}"
        )
    return arrange(figure, title, handles)


def write(rows: Mapping[str, Mapping[str, int]], path: Path = DRAWING) -> Path:
    """Write the figure of main loops as SVG."""
    return save_drawing(partial(draw, rows), path)
