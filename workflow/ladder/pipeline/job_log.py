"""Keep what a job's script writes to stderr, and the traceback of an error, in the job's log."""

import contextlib
import sys
import traceback
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from ladder.core.errors import InputError, clear_errors


class _Both:
    """A stream that writes to the terminal and to a log."""

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        self.terminal, self.log = terminal, log

    def write(self, text: str) -> int:
        """Write to both."""
        with contextlib.suppress(OSError):  # on a full disk, the terminal still gets it
            self.log.write(text)
        return self.terminal.write(text)

    def flush(self) -> None:
        """Flush the terminal; the log is not buffered."""
        self.terminal.flush()


@contextlib.contextmanager
def job(log: str) -> Iterator[None]:
    """Run the body and write its stderr to the log, too.

    An `InputError` ends the process with its message alone. For any other error the log gets the
    traceback.
    """
    with clear_errors(), Path(log).open("wb", buffering=0) as raw:
        file = TextIOWrapper(raw, write_through=True)
        with contextlib.redirect_stderr(_Both(sys.stderr, file)), clear_errors():
            try:
                yield
            except InputError:
                raise
            except Exception:
                with contextlib.suppress(OSError):
                    traceback.print_exc(file=file)
                raise
