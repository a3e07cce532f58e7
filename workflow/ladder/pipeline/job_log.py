"""Keep what a job's script writes to stderr, and the traceback of an error, in the job's log."""

import contextlib
import sys
import traceback
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

from ladder.core.errors import InputError, clear_errors


class _Log(TextIOWrapper):
    """A log, or the terminal once the disk of the log is full."""

    def write(self, text: str) -> int:
        """Write at once."""
        try:
            return super().write(text)
        except OSError:
            return sys.__stderr__.write(text) if sys.__stderr__ else 0


@contextlib.contextmanager
def job(log: str) -> Iterator[None]:
    """Run the body and write its stderr to the log. The run shows what concerns its user.

    An `InputError` ends the process with its message alone. For any other error the log gets the
    traceback.
    """
    with clear_errors(), Path(log).open("wb", buffering=0) as raw:
        file = _Log(raw, write_through=True)
        with contextlib.redirect_stderr(file), clear_errors():
            try:
                yield
            except InputError:
                raise
            except Exception:
                with contextlib.suppress(OSError):
                    traceback.print_exc(file=file)
                raise
