"""Lay out figures on the page: style, panels, title, legend and notes. Write the files.

A figure has exactly the requested width. Its height is the sum of the measured heights of its
panels, text and legend.
"""

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ladder.core.files import write_whole
from ladder.figures.data import MARKS, SIZE, WIDTH, View, marks_in

PAD = 0.06
"""The space between and around the parts of a figure, in inches."""
NOTE = "#444444"


def style() -> None:
    """Set the style of figures."""
    sns.set_theme(
        context="notebook",
        style="whitegrid",
        rc={
            "figure.dpi": 100,
            "savefig.dpi": 160,
            "axes.spines.top": False,
            "axes.spines.right": False,
            # matplotlib's own: of several, each would be looked for, and Arial found on some machines
            "font.family": "DejaVu Sans",
            "font.size": SIZE,
            "axes.titlesize": SIZE,
            "axes.labelsize": SIZE,
            "xtick.labelsize": SIZE,
            "ytick.labelsize": SIZE,
            "legend.fontsize": SIZE,
            "lines.linewidth": 1.6,
            "lines.markersize": 6.0,
            "axes.titlelocation": "left",
            "axes.titlepad": 4,
            "axes.titley": 1.0,  # found by itself, it would cost a tenth of the drawing
            "axes.labelpad": 2,
            "xtick.major.pad": 2,
            "ytick.major.pad": 2,
            "grid.linewidth": 0.6,
            "axes.linewidth": 0.8,
            "hatch.linewidth": 0.8,
            "svg.hashsalt": "gemm-ladder",
            "svg.fonttype": "path",
            "text.hinting": "no_hinting",  # lines are measured as wide as an SVG draws them
            "pdf.fonttype": 42,
        },
    )


def inches(lines: float, size: float = SIZE) -> float:
    """Return the height in inches of lines of text with a size in points."""
    return lines * size * 1.25 / 72


def panels(count: int, height: float | Sequence[float], most: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, `height` inches high or each row with its own, in at
    most `most` columns.
    """
    columns = min(count, most)
    rows = -(-count // columns)
    # not through pyplot: seaborn would draw such a figure in full to check whether labels touch
    heights = np.broadcast_to(height, rows).astype(float).tolist()
    figure = Figure(figsize=(WIDTH, sum(heights)))
    grid = figure.subplots(rows, columns, squeeze=False, height_ratios=heights)
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def ring(color: str, label: str) -> Line2D:
    """Return the legend entry for the edge of marked points."""
    return Line2D([], [], ls="", marker="o", mfc="none", mec=color, mew=1.2, label=label)


def finish(
    figure: Figure,
    data: View,
    title: str,
    handles: Sequence[Artist] = (),
    caption: Sequence[str] = (),
    details: Sequence[str] = (),
    intervals: str | None = None,
    lettered: pd.DataFrame | None = None,
    edged: pd.DataFrame | None = None,
    measured: str | None = None,
) -> Figure:
    """Put the title above the panels and the legend and caption below them. The figure grows by
    their height.

    The figure's label becomes its description, which `save` writes into the files: title, caption,
    `details`, and where the data are from. `intervals` replaces the sentence about intervals in it,
    and `measured` the one at the beginning of the caption.
    The caption has the marks of the rows `lettered`, the legend those of the rows `edged`.
    """
    letters, edges = (
        [] if rows is None else marks_in(rows[["marks"]].drop_duplicates().to_dict("records"))
        for rows in (lettered, edged)
    )
    names = [f"{MARKS[mark][0]}: {mark}" for mark in letters]
    meanings = [f"{MARKS[mark][0]}: {mark}, {MARKS[mark][2]}" for mark in letters + edges]
    handles = [*handles, *(ring(MARKS[mark][1], f"edge: {mark}") for mark in edges)]
    marked = f"{'; '.join(names)}." if names else ""
    shown = " ".join(
        filter(
            None, [data.measured if measured is None else measured, *caption, data.left_out, marked]
        )
    )
    notes = [*details, f"{'; '.join(meanings)}." if meanings else "", data.note(intervals)]
    figure.set_label(" ".join(filter(None, [f"{title}.", shown, *notes])))
    return arrange(figure, title, handles, shown)


def arrange(figure: Figure, title: str, handles: Sequence[Artist], shown: str = "") -> Figure:
    """Put a title above the panels, the legend and a caption below them."""
    width, body = figure.get_size_inches()
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    dpi, left = figure.dpi, PAD / width

    def height(artist: Any) -> float:
        return float(artist.get_window_extent(renderer).height) / dpi

    # not at the very top, where wrapped text would have no width
    head = figure.text(
        left, 0.5, title, ha="left", va="top", fontsize=SIZE + 2, fontweight="bold", wrap=True
    )
    foot = figure.text(left, 0, shown, ha="left", va="bottom", color=NOTE, wrap=True)
    for text in (head, foot):  # wrap once, not whenever a size is requested
        text._renderer = renderer  # type: ignore[attr-defined]
        text.set_text(text._get_wrapped_text())  # type: ignore[attr-defined]
        text.set_wrap(False)
    parts = [height(head) + 2 * PAD, height(foot) + 2 * PAD]
    legend = None
    for columns in range(min(len(handles), 4), 0, -1):
        legend = figure.legend(
            handles=list(handles),
            loc="lower left",
            ncols=columns,
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            columnspacing=1.5,
            handlelength=1.8,
            labelspacing=0.3,
            bbox_to_anchor=(left, 0),
        )
        if columns == 1 or legend.get_window_extent(renderer).width / dpi <= width - 2 * PAD:
            break
        legend.remove()
    between = height(legend) + PAD if legend else 0.0
    total = body + sum(parts) + between
    figure.set_size_inches(width, total)
    head.set_y(1 - PAD / total)
    foot.set_y(PAD / total)
    if legend:
        legend.set_bbox_to_anchor((left, parts[1] / total))
    for _ in range(3):  # where panels are narrower, labels in them may reach farther beyond
        _fill(figure, parts[1] + between, body, renderer)
    return figure


def _fill(figure: Figure, bottom: float, height: float, renderer: Any) -> None:
    """Place the panels, so that they and their labels fill the width of a figure, and so many inches
    from `bottom` on.

    All columns are equally wide, and rows as high as their ratios say. Matplotlib's constrained
    layout does the same, but measures all labels four times.
    """
    (width, total), every = figure.get_size_inches(), figure.axes
    grid: Any = every[0].get_gridspec()
    # left and right of each column, above and below each row
    beside, around = np.zeros((2, grid.ncols)), np.zeros((2, grid.nrows))
    for place, axes in enumerate(every):
        row, column = divmod(place, grid.ncols)
        inner = axes.get_window_extent(renderer).extents
        outer: Any = axes.get_tightbbox(renderer, for_layout_only=True)
        left, below, right, above = abs(inner - outer.extents) / figure.dpi + PAD
        beside[:, column] = np.maximum(beside[:, column], (left, right))
        around[:, row] = np.maximum(around[:, row], (above, below))
    ratios = np.array(grid.get_height_ratios())
    wide = (width - beside.sum()) / grid.ncols
    tall = (height - around.sum()) * ratios / ratios.sum()
    for place, axes in enumerate(every):
        row, column = divmod(place, grid.ncols)
        x = beside[:, :column].sum() + beside[0, column] + column * wide
        y = bottom + around[:, row + 1 :].sum() + around[1, row] + tall[row + 1 :].sum()
        axes.set_position((x / width, y / total, wide / width, tall[row] / total))


def plain(value: float, _: Any = None) -> str:
    """Return a tick label of a logarithmic axis: a power of ten from five digits on."""
    if 1e-3 < value < 1e5:
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    power = f"$10^{{{int(exponent)}}}$"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def logarithmic(axes: Axes, name: str = "y") -> None:
    """Give an axis, "x" or "y", a logarithmic scale with as many full labels as fit. Its data must
    be drawn already.
    """
    axis: Axis = axes.xaxis if name == "x" else axes.yaxis
    (axes.set_xscale if name == "x" else axes.set_yscale)("log")
    low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
    decades = np.log10(high / low) if 0 < low < high else 1.0
    few = 1.0 if name == "x" else 2.5
    axis.set_major_locator(
        LogLocator(
            subs=(1, 2, 5) if decades < few else (1, 3) if decades < 4 else (1,), numticks=50
        )
    )
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())


def rows_of(axes: Axes, labels: Sequence[str], inset: float = 0.4) -> None:
    """Give each label a row of the y axis, the first one at the top. Rows are 1 apart, and the axis
    ends 1 - `inset` beyond them.
    """
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - inset, inset - 1)


def problems(axes: Axes, labels: Sequence[str], first: float = 0.0, share: float = 0.7) -> None:
    """Label the places `first`, `first` + 1, … of the x axis with problems: on several lines or
    slanted if they would touch.

    `share` is the share of the panel's width that the labels beside it leave.
    """
    room = share * axes.get_position().width * WIDTH
    letters = room / max(len(labels), 1) / (0.65 * SIZE / 72)
    for broken in ("×", "\n×"):
        shown = [label.replace("x", broken) for label in labels]
        fits = (
            max((len(line) for label in shown for line in label.split("\n")), default=0) < letters
        )
        if fits:
            break
    aslant: dict[str, Any] = (
        {} if fits else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    )
    shown = shown if fits else [label.replace("x", "×") for label in labels]
    axes.set_xticks([first + place for place in range(len(labels))], shown, **aslant)
    axes.set_xlim(first - 0.5, first + len(labels) - 0.5)
    axes.grid(axis="x", visible=False)


PLACES = re.compile(r'\bd="[^"]*"|translate\([^)]*\)|\b[xy]="[^"]*"')
COORDINATE = re.compile(r"\d+\.\d{2,}")
"""A number with more than tenths of a point, where an SVG has coordinates. Nobody sees those, and
they are an eighth of a file.
"""


def save(figure: Figure, stem: Path, formats: Sequence[str] = ()) -> None:
    """Write `stem` as SVG and in every other format, pdf or png, with the description. No file
    contains the time of drawing.
    """
    text, canvas, described = io.StringIO(), FigureCanvasSVG(figure), str(figure.get_label())
    canvas.print_svg(text, metadata={"Date": None})  # type: ignore[no-untyped-call]  # `savefig` draws everything twice
    start, root, rest = text.getvalue().partition("<metadata>")
    desc = f"<desc>{escape(described)}</desc>\n " if described else ""
    rounded = PLACES.sub(
        lambda places: COORDINATE.sub(
            lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), places[0]
        ),
        rest,
    )
    write_whole(stem.with_suffix(".svg"), f"{start}{desc}{root}{rounded}".encode())
    metadata = {
        "pdf": {"CreationDate": None, "Subject": described},
        "png": {"Software": None, "Description": described},
    }
    for suffix in formats:
        file = io.BytesIO()
        figure.savefig(file, format=suffix, metadata=metadata[suffix])
        write_whole(stem.with_suffix(f".{suffix}"), file.getvalue())


def save_drawing(draw: Callable[[], Figure], path: Path) -> Path:
    """Write a drawing for the pages as SVG, in a style of its own, whatever figures were drawn
    before. Return its path.
    """
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "ladder",
                "font.family": "DejaVu Sans",
                "font.size": SIZE,
                "axes.spines.top": False,
                "axes.spines.right": False,
            }
        )
        save(draw(), path.with_suffix(""))
    return path
