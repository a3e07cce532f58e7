"""What every job's script does round its work: a log, and errors that a user can read."""

import contextlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ladder.units import InputError


class _Both:
    """Writes to the terminal and to a log."""

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        self.terminal, self.log = terminal, log

    def write(self, text: str) -> int:
        """Write to both."""
        self.log.write(text)
        return self.terminal.write(text)

    def flush(self) -> None:
        """Flush both."""
        self.log.flush()
        self.terminal.flush()


@contextlib.contextmanager
def job(log: str) -> Iterator[None]:
    """Run the body with what it says on stderr in the log too.

    An `InputError` ends the process with its message alone; of any other error the log has the traceback.
    """
    with Path(log).open("w") as file, contextlib.redirect_stderr(_Both(sys.stderr, file)), clear_errors():
        try:
            yield
        except InputError:
            raise
        except Exception:
            traceback.print_exc(file=file)
            raise


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """End the process with the message of an `InputError`, without a traceback."""
    try:
        yield
    except InputError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(1)
