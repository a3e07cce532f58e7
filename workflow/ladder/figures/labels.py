"""Write names beside lines, points and bars, apart from each other, so that no legend is needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

LETTER = 0.64
"""The width of a letter, and its height with the space to the next line, as shares of the text
size.
"""
LINE = 1.25
Place = tuple[float, float, str, Any]
"""The x and y of a point, its name and the color of the name."""


WAYS = ((1, 0), (-1, 0), (1, 1), (-1, 1), (0, 1), (1, -1), (-1, -1), (0, -1))
"""The directions in which a name is tried, in order."""


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places that lie at least `gap` apart, in the same order, from `low` to `high`, moved
    as little as possible.

    That is isotonic regression of the places less what the gaps below them take. If there is no
    room, they leave the range.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    blocks: list[list[float]] = []
    for rank, index in enumerate(order):
        blocks.append([places[index] - rank * gap, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (below, n), (above, m) = blocks[-2:]
            blocks[-2:] = [[(below * n + above * m) / (n + m), n + m]]
    starts = [start for start, n in blocks for _ in range(int(n))]
    most = max(high - (len(places) - 1) * gap, low)
    moved = {
        index: min(max(starts[rank], low), most) + rank * gap for rank, index in enumerate(order)
    }
    return [moved[index] for index in range(len(places))]


def _fraction(axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Return a point of the data as shares of the panel."""
    across, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
    return round(float(across), 4), round(float(up), 4)


def name_ends(axes: Axes, ends: Sequence[Place], size: float, tall: float) -> None:
    """Write names right of a panel that is `tall` inches high, each joined to the end of its line.
    The limits must be set already.
    """
    places = [_fraction(axes, x, y)[1] for x, y, _, _ in ends]
    for (x, y, text, color), up in zip(
        ends, apart(places, LINE * size / 72 / tall, 0.0, 1.0), strict=True
    ):
        axes.annotate(
            text,
            (x, y),
            (1.03, up),
            textcoords="axes fraction",
            fontsize=size,
            color=color,
            ha="left",
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "lw": 0.06 * size,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def name_points(axes: Axes, points: Sequence[Place], size: float, wide: float, tall: float) -> None:
    """Write names beside points of a panel of so many inches, where no earlier name and no point
    is, not even one whose name is empty. The limits must be set already.
    """
    at = [np.multiply(_fraction(axes, x, y), (wide * 72, tall * 72)) for x, y, _, _ in points]
    taken = [Bbox([point - 0.3 * size, point + 0.3 * size]) for point in at]
    for (x, y, text, color), point in zip(points, at, strict=True):
        if not text:
            continue
        half = np.array([LETTER * size * len(text) / 2, 0.5 * size])
        tries = []
        for steps in (1, 2, 3, 5, 7, 9):
            for way in WAYS:
                middle = np.multiply(way, half + 0.5 * size * steps)
                tries.append((steps, middle, Bbox([point + middle - half, point + middle + half])))
        inside = [place for place in tries if _inside(place[2], 72 * wide, 72 * tall)]
        free = (place for place in inside if not place[2].count_overlaps(taken))
        steps, middle, box = next(free, (inside or tries)[0])
        taken.append(box)
        line: Any = (
            {"arrowstyle": "-", "color": color, "lw": 0.06 * size, "shrinkA": 0, "shrinkB": 0}
            if steps > 1 or middle.all()
            else None
        )
        name = axes.annotate(
            text,
            (x, y),
            tuple(middle.round(2)),
            textcoords="offset points",
            fontsize=size,
            color=color,
            ha="center",
            va="center",
            zorder=6,
            arrowprops=line,
            path_effects=halo(size),
        )
        name.set_in_layout(False)


def _inside(box: Bbox, wide: float, tall: float) -> bool:
    return bool(box.xmin >= 0 and box.ymin >= 0 and box.xmax <= wide and box.ymax <= tall)


def halo(size: float) -> list[Any]:
    """Return the effect that keeps a text readable on lines."""
    return [withStroke(linewidth=0.25 * size, foreground="#ffffff")]


def cells(
    axes: Axes,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    size: float,
    left: bool = False,
    first: float = 0,
) -> None:
    """Write a table beside a panel: a row of cells at each of the places `first`, `first` + 1, … of
    its y axis, and a head above.

    The table is right of the panel, or left of it. The heads stand upright if one is wider than its
    column.
    """
    columns = list(zip(*rows, strict=True))
    widths = [
        max([len(cell) for cell in column] + ([] if left else [len(head[i])])) + 1.2
        for i, column in enumerate(columns)
    ]
    letter = LETTER * size
    total = letter * sum(widths)
    upright = any(len(name) + 1.2 > width for name, width in zip(head, widths, strict=True))
    for index, name in enumerate(head):
        end = letter * sum(widths[: index + 1]) - (total + 0.5 * size if left else 0)
        outermost = index == (0 if left else len(head) - 1)
        for place, row in enumerate(rows):
            cell = axes.annotate(
                row[index],
                (0 if left else 1, first + place),
                (round(end, 2), 0),
                ("axes fraction", "data"),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize=size,
                annotation_clip=False,
            )
            cell.set_in_layout(outermost)  # the others lie within: they need not be measured
        axes.annotate(
            name,
            (0 if left else 1, 1),
            (round(end, 2), 0.3 * size),
            "axes fraction",
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=size,
            rotation=90 if upright else 0,
            color="#444444",
        )


def break_bars(axes: Axes, bars: Sequence[tuple[float, float, float]]) -> None:
    """Mark bars that end beyond the panel, and write their lengths: each is a place on the y axis,
    a thickness and a length.
    """
    right = axes.get_xlim()[1]
    for place, thick, length in bars:
        if length > right:
            for x in (0.965, 0.985):
                axes.plot(
                    [(x - 0.006) * right, (x + 0.006) * right],
                    [place + 0.7 * thick, place - 0.7 * thick],
                    color="#ffffff",
                    lw=2.0,
                    zorder=4,
                )
            axes.text(
                0.95 * right,
                place,
                f"{length:.3g}",
                ha="right",
                va="center",
                zorder=4,
                path_effects=halo(14),
            )
