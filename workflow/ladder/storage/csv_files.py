"""Tables as CSV files: the same data give the same bytes."""

import io
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from ladder.core.errors import InputError
from ladder.core.files import MEND, write_whole
from ladder.storage.columns import of_text
from ladder.storage.rows import check_columns

QUOTED = re.compile('[,"\r\n]')
"""What a cell is put in quotes for."""


def to_csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV with six significant digits. The same data give the same bytes."""
    file = io.BytesIO()
    append(file, table)
    return file.getvalue()


def append(file: IO[bytes], table: pd.DataFrame) -> None:
    """Write a table to a file in the form that `to_csv` returns, or more rows of a table that the
    file has the beginning of.
    """
    if not file.tell():
        file.write((",".join(table.columns) + "\n").encode())
    for start in range(0, len(table), WRITTEN):
        rows = table[start : start + WRITTEN]
        lines = zip(*(_cells(rows[name]) for name in table), strict=True)
        file.write("".join(",".join(line) + "\n" for line in lines).encode())


def _cells(column: pd.Series) -> Sequence[str]:
    places, values = pd.factorize(column)  # most values are in many rows
    texts = [_quoted(f"{each:.6g}" if isinstance(each, float) else str(each)) for each in values]
    cells: list[str] = np.array([*texts, ""], object)[places].tolist()  # place -1: missing
    return cells


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if QUOTED.search(text) else text


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table in the form that `to_csv` returns."""
    write_whole(path, to_csv(table))


WRITTEN = 10_000
"""The rows of a table that are turned into text at a time."""
PIECE = 100_000
"""The rows of a table that are held at a time if not all of them are kept."""


def read_csv(
    path: Path,
    needed: Sequence[str] = (),
    text: bool = False,
    columns: Collection[str] = (),
    keep: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Return a table that `write_csv` wrote, with all values as text if `text` is true.

    `columns` are those that are read; if empty, all. A large table is read in pieces: `keep` returns
    the rows of a piece that the table has.

    Raises `InputError` for another file, or for one that lacks a column of `needed`.
    """
    try:
        table = pd.read_csv(
            path,
            keep_default_na=False,
            na_values=[] if text else [""],
            # the labels of squares are text too, and so are columns without a value
            dtype=str if text else dict.fromkeys(of_text(), str),
            usecols=columns.__contains__ if columns else None,
            chunksize=PIECE if keep else None,
        )
        if keep:
            table = pd.concat(map(keep, table), ignore_index=True)
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path}: not a table: {error}. {MEND}") from None
    check_columns(path, [*map(str, table)], needed)
    return table
