"""Gemm Ladder: compile, verify, time and draw GEMM kernels. docs/python.md shows how to use it from
Python, and docs/architecture.md is the map of the packages.

Everything here imports what it needs when it is called, so `import ladder` is cheap.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ladder.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ladder.analysis.compare import Comparison
    from ladder.analysis.dataset import Dataset
    from ladder.measuring.verdict import Verdict

__all__ = ["InputError", "compare", "figure", "judge", "open"]
Folder = str | os.PathLike[str]


def judge(
    path: Folder,
    problems: Sequence[Any] | None = None,
    *,
    set: Mapping[str, int | str | Sequence[Any]] | None = None,
    type: str | None = None,
    budget: float | None = None,
    block: str | None = None,
    grid: str | None = None,
) -> "Verdict":
    """Compile, verify and time the kernel in a file on this machine, as `ladder try` does, and
    return what is true of it.

    `problems` are those of a campaign: `[4096, 64, 64]` for M, N and K, or `{"square": 512, "beta":
    0.5}`; by default a square of 4096 on a GPU and of 256 on the CPU. `set` has a value of a
    parameter, or several, `type` an element type or several, joined by commas, `budget` the seconds
    after which nothing more is begun. `block` and `grid` are the extents of a CUDA kernel without a
    header. A kernel that cannot be tried has the status `not_tried`; nothing is raised. Raises
    `InputError` for an argument of another form, such as `budget=-1`.
    """
    from ladder.cli import trial
    from ladder.cli.main import Refusing, parser

    words = ["try"]
    if problems is not None:
        words.append(f"--problems={json.dumps(problems)}")
    for name, given in (set or {}).items():
        values = [given] if isinstance(given, str | int) else given
        words.append(f"--set={name}={','.join(map(str, values))}")
    options = {"type": type, "budget": budget, "block": block, "grid": grid}
    words += [f"--{name}={value}" for name, value in options.items() if value is not None]
    (verdict,) = trial.judged(parser(Refusing).parse_args([*words, "--", os.fspath(path)]))
    return verdict


def open(folder: Folder) -> "Dataset":
    """Return the dataset in a folder such as `results/default/nvidia-h200`. Its `tables()` are
    DataFrames by name: `summary`, `best`, `pairs`, `rounds`, `references`, `costs`, `resources` and
    `models`, with the columns and units of docs/data.md. Raises `InputError` if the folder has
    none.
    """
    from pathlib import Path

    from ladder.analysis.dataset import Dataset
    from ladder.model.kernel_file import known

    return Dataset.open(Path(folder), known().values())


def compare(a: Folder, b: Folder) -> "Comparison":
    """Return how the times of dataset `b` differ from those of `a`, as `ladder compare` does: a
    DataFrame `rows`, and `text()`. Times are in microseconds, and a `ratio` above 1 is faster.

    Raises `InputError` if they are not two datasets that can be compared.
    """
    from pathlib import Path

    from ladder.analysis.compare import compare
    from ladder.core import places
    from ladder.storage.dataset_layout import PUBLISHED

    first, *others = compare([Path(a), Path(b)], places.HOME / PUBLISHED)
    if others:
        raise InputError(f"{a}: has several datasets; expected one, such as {first.a.folder}")
    return first


def figure(dataset: "Dataset", name: str) -> "Figure":
    """Return a figure of a dataset as a Matplotlib figure, by the name of its file, such as
    `ladder-warm`. Raises `InputError`, which lists the names, for another.
    """
    from ladder.core.errors import one_of
    from ladder.figures.draw import draw, plan
    from ladder.storage.dataset_layout import DRAWN_FROM

    planned = plan(dataset.tables(DRAWN_FROM), dataset.environment)
    if name not in planned:
        raise InputError(f"{dataset.folder}: {name}: no such figure; {one_of(name, list(planned))}")
    view, kind = planned[name]
    return draw(kind, view)


def _end(kind: "type[BaseException]", error: BaseException, trace: TracebackType | None) -> None:
    """Tell of an error that nobody caught; in one line of what the user can mend, and of Ctrl-C, as
    while modules are imported.
    """
    if issubclass(kind, KeyboardInterrupt):
        print("Interrupted", file=sys.stderr)
        return
    if issubclass(kind, InputError):
        print(f"Error: {error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


if sys.excepthook is sys.__excepthook__:  # a program's own stays
    sys.excepthook = _end
