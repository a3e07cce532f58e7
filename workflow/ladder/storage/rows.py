"""Rows of tables as plain data. They need no pandas, whose import takes longer than all else at the
end of a run with nothing to do.
"""

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError
from ladder.core.files import MEND

LARGEST_SQUARE = 4096
"""The largest square at which the ladder is shown. The power cap of the GPUs that the ladder was
made on slows larger ones.
"""


def read_rows(path: Path, needed: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Yield the rows of a table that `csv_files` wrote, with all values as text. Raises
    `InputError` as `csv_files.read_csv` does.
    """
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file, restval="")
            check_columns(path, reader.fieldnames or [], needed)
            yield from reader
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path}: not a table: {error}. {MEND}") from None


def check_columns(path: Path, columns: Collection[str], needed: Sequence[str]) -> None:
    """Raise `InputError` unless a table has the columns of `needed`, and one of those that say what
    its rows are about.
    """
    missing = [name for name in needed if name not in columns]
    if missing or not {"kernel", "job", "problem"} & set(columns):
        raise InputError(
            f"{path}: got the columns {', '.join(map(str, columns))[:200]}; expected "
            f"{', '.join(missing) or 'kernel, job or problem'} to be "
            f"{'among them' if missing else 'one'}. {MEND}"
        )


def headline(rated: Iterable[Mapping[str, Any]]) -> str:
    """Return the label of the one problem at which figures, pages and hardware counters show the
    whole ladder, from the rows of `best.csv` that have a rate.

    It is the largest square, up to `LARGEST_SQUARE`, among the problems that most kernels have in
    the first state measured. If there is no such square, it is the largest of those problems.
    Raises `InputError` if there is no row.
    """
    kernels: dict[tuple[Any, ...], set[str]] = {}
    state = None
    for row in rated:
        state = state or row["state"]
        if row["state"] == state:
            key = str(row["problem"]), *(int(row[name]) for name in "mnk")
            kernels.setdefault(key, set()).add(row["kernel"])
    if not kernels:
        raise InputError("best.csv: no kernel has a rate on any problem; expected one to draw")
    squares = [key for key in kernels if key[0] == str(key[1]) and key[1] <= LARGEST_SQUARE]
    most = max(squares or kernels, key=lambda key: (len(kernels[key]), math.prod(key[1:])))
    return str(most[0])
