"""Tables as CSV files: the same bytes for the same data."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ladder.core.errors import InputError
from ladder.core.files import MEND, write_whole


def to_csv(table: pd.DataFrame) -> bytes:
    """A table with six significant digits, the same bytes for the same data."""
    text: str = table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return text.encode()


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as `to_csv` has it."""
    write_whole(path, to_csv(table))


def read_csv(path: Path, needed: Sequence[str] = (), text: bool = False) -> pd.DataFrame:
    """A table that `write_csv` wrote, all of it as text if so asked.

    Raises `InputError` for another file, or one without a column that is needed.
    """
    try:
        # marks are text where nothing is marked too
        table = pd.read_csv(path, keep_default_na=False, na_values=[] if text else [""], dtype=str if text else {"marks": str})
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{path}: not a table: {error}. {MEND}") from None
    missing = [name for name in needed if name not in table]
    if missing or not {"kernel", "job", "problem"} & set(table):
        raise InputError(
            f"{path}: got the columns {', '.join(map(str, table))[:200]}; expected "
            f"{', '.join(missing) or 'kernel, job or problem'} to be {'among them' if missing else 'one'}. {MEND}"
        )
    return table
