"""Tables as CSV files: the same data give the same bytes."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ladder.core.errors import InputError
from ladder.core.files import MEND, write_whole


def to_csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV with six significant digits. The same data give the same bytes."""
    text: str = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text.encode()


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table in the form that `to_csv` returns."""
    write_whole(path, to_csv(table))


def read_csv(path: Path, needed: Sequence[str] = (), text: bool = False) -> pd.DataFrame:
    """Return a table that `write_csv` wrote, with all values as text if `text` is true.

    Raises `InputError` for another file, or for one that lacks a column of `needed`.
    """
    try:
        # `marks` is text even if no row has a mark
        table = pd.read_csv(
            path,
            keep_default_na=False,
            na_values=[] if text else [""],
            dtype=str if text else {"marks": str},
        )
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path}: not a table: {error}. {MEND}") from None
    missing = [name for name in needed if name not in table]
    if missing or not {"kernel", "job", "problem"} & set(table):
        raise InputError(
            f"{path}: got the columns {', '.join(map(str, table))[:200]}; expected "
            f"{', '.join(missing) or 'kernel, job or problem'} to be "
            f"{'among them' if missing else 'one'}. {MEND}"
        )
    return table
