"""Errors that a user can fix: one exception, its message, and how a process ends with it."""

import contextlib
import errno
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

REASON_CHARACTERS = 2000
"""The most of a reason that is recorded."""
INTERRUPTED = "Interrupted: what was finished before is kept, run again to go on"
OF_DISKS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG,
}  # fmt: skip
"""What the system says of a full disk, a quota, a read-only or foreign folder, a file in place of a folder: the user's to mend, no error of
the program's."""


def plain(text: str, most: int = REASON_CHARACTERS) -> str:
    """A text that came from a kernel or a compiler as it may be printed and recorded: bounded, control characters escaped."""
    shown = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


class InputError(Exception):
    """Input of the user's that cannot be used; the message names the file, the key, the value and what was expected."""


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


def unwritable(path: Path | str, error: OSError) -> InputError:
    """What to tell the user of a file that the system does not let us write."""
    return InputError(f"{path}: cannot be written: {error.strerror}; what was finished before is kept, run again once it can be")
