"""Draw the model of issue slots and register banks beside measured rates."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ladder.analysis.kernel_model import KEY
from ladder.figures.data import View
from ladder.figures.layout import finish, panels, text_size
from ladder.figures.scaling import points


def modelled(data: View) -> pd.DataFrame:
    """Return the measured configurations that the model covers, of kernels that the confirmation did not find incorrect."""
    rated = data.summary[data.summary["tflops"].notna() & data.summary["kernel"].isin(data.colours())]
    return rated.merge(data.models[[*KEY, "issue_tflops"]].dropna(), on=KEY)


def issue(data: View) -> Figure:
    """Draw every configuration at the problem where it is fastest, against the rate that its main loop could issue if all else were free."""
    rows = modelled(data)
    rows = rows.loc[rows.groupby(["kernel", "configuration"])["tflops"].idxmax()]
    figure, (axes,) = panels(data, 1, 4.2 if not data.in_column else 2.9)
    colours, markers, size = data.colours(), data.markers(), 0.6 * text_size(data.width)
    for kernel, mine in rows.groupby("kernel"):
        points(axes, data.rate(mine["issue_tflops"]), data.rate(mine["tflops"]), mine, colours[kernel], markers[kernel], size)
    top = 1.05 * data.rate(rows[["issue_tflops", "tflops"]].max().max())
    axes.plot([0, top], [0, top], color="#000000", ls=":", zorder=2)
    axes.set(xlim=(0, top), ylim=(0, top), xlabel=f"{data.unit} by the model", ylabel=f"{data.unit} measured")
    handles = [*data.handles(rows, lines=False), Line2D([], [], color="#000000", ls=":", label="measured as predicted")]
    notes = [
        f"{len(rows)} configurations, each at the problem where it is fastest. The model knows the main loop alone, its issue slots, "
        "register banks and reuse cache: far below the line, something else holds a kernel back. Above it, the model counts too much: "
        "as issued also what branches jump over; what else makes loops faster than modelled is not known. "
        "The sweep: one process, within-run."
    ]
    return finish(
        figure, data, f"Multiply-adds that a loop can issue, on {data.environment['name']}", handles, notes, intervals=""
    )
