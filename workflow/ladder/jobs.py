"""What every job's script does round its work: a log, errors that a user can read, files that are whole."""

import contextlib
import errno
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from ladder.units import InputError

MEND = "Where it is committed, restore it: git checkout. Else remove it and run again"
INTERRUPTED = "Interrupted: what was finished before is kept, run again to go on"
OF_DISKS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG,
}  # fmt: skip
"""What the system says of a full disk, a quota, a read-only or foreign folder, a file in place of a folder: the user's to mend, no error of
the program's."""


class _Both:
    """Writes to the terminal and to a log."""

    def __init__(self, terminal: TextIO, log: TextIO) -> None:
        self.terminal, self.log = terminal, log

    def write(self, text: str) -> int:
        """Write to both."""
        with contextlib.suppress(OSError):  # where the disk is full, the terminal still tells
            self.log.write(text)
        return self.terminal.write(text)

    def flush(self) -> None:
        """Flush both."""
        self.terminal.flush()


@contextlib.contextmanager
def job(log: str) -> Iterator[None]:
    """Run the body with what it says on stderr in the log too.

    An `InputError` ends the process with its message alone; of any other error the log has the traceback.
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


@contextlib.contextmanager
def clear_errors(code: int = 1) -> Iterator[None]:
    """End the process with the message of an `InputError`, or of a file that cannot be written, without a traceback, and with a code."""
    try:
        yield
    except InputError as error:
        message = str(error)
    except OSError as error:
        if error.errno not in OF_DISKS:
            raise
        message = (
            f"{error.filename or 'the disk'}: {error.strerror}; what was finished before is kept, run again once it can be used"
        )
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    else:
        return
    print(f"Error: {message}", file=sys.stderr)
    sys.exit(code)


ENVIRONMENT = ("device", "kind", "name", "fingerprint", "project", "attributes", "peaks")
"""What `environment.json` has at the least."""


def read_environment(path: Path | str, needed: Sequence[str] = ENVIRONMENT) -> dict[str, Any]:
    """The data in an `environment.json`. Raises `InputError` for a file that has not all that is needed."""
    try:
        found = json.loads(Path(path).read_text())
        missing = [key for key in needed if key not in found]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        found, missing = {}, [f"readable JSON: {error}"]
    if missing or not isinstance(found, dict):
        raise InputError(f"{path}: has no {', '.join(missing)}; expected what describes a device. {MEND}")
    return found


def read_json(path: Path) -> Any:
    """The data in a JSON file. Raises `InputError` for another."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}; expected JSON. {MEND}") from None


def unwritable(path: Path | str, error: OSError) -> InputError:
    """What to tell the user of a file that the system does not let us write."""
    return InputError(f"{path}: cannot be written: {error.strerror}; what was finished before is kept, run again once it can be")


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it. Raises `InputError` where it cannot be written."""
    part = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            part = file.name
            file.write(data)
        os.chmod(part, 0o644)
        os.replace(part, path)
    except OSError as error:
        if part:
            with contextlib.suppress(OSError):
                Path(part).unlink()
        raise unwritable(path, error) from None
