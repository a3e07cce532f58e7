"""Errors that a user can fix: the exception, its message, and the end of the process."""

import contextlib
import difflib
import errno
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

REASON_CHARACTERS = 2000
"""The most characters of a reason that are recorded."""
INTERRUPTED = "Interrupted: what is finished is kept; run again to continue"
NOTHING_MEASURED = 4
"""The exit code of a campaign that was made before, and of a comparison of a run with itself:
nothing new was measured.
"""
MEASURE_AGAIN = 5
"""The exit code if all that keeps a claim or a comparison open is a busy machine:
`verdicts.AGAIN`.
"""
OF_DISKS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
}
"""Error numbers of full disks, quotas, read-only or foreign folders, files in place of folders: for
the user to fix, not errors of the program.
"""


def plain(text: str, most: int = REASON_CHARACTERS) -> str:
    """Return text from a kernel or a compiler in a form that may be printed and recorded: bounded,
    control characters escaped.
    """
    shown = "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode()
        for c in text[: most + 1]
    )
    return shown if len(shown) <= most else shown[: most - 1] + "…"


class InputError(Exception):
    """User input that cannot be used. The message names the file, the key, the value and what was
    expected.
    """


def nearest(value: str, known: Sequence[str]) -> str:
    """Return the known name that an unknown one may be misspelled for, or ""."""
    # a lower cutoff offers `cpu` for `gpu`
    return next(iter(difflib.get_close_matches(value, known, 1, 0.7)), "")


def one_of(value: str, known: Sequence[str]) -> str:
    """Return what was expected in place of an unknown name, the nearest known one first."""
    near = nearest(value, known)
    return (
        f"did you mean `{near}`? Expected" if near else "expected"
    ) + f" one of {', '.join(known)}"


def few(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are than `most`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@contextlib.contextmanager
def clear_errors(code: int = 1) -> Iterator[None]:
    """Turn an `InputError` or a file that cannot be written into a message, without a traceback,
    and exit with `code`.
    """
    try:
        yield
    except InputError as error:
        message = str(error)
    except OSError as error:
        if error.errno not in OF_DISKS:
            raise
        message = str(unwritable(error.filename or "the disk", error))
    except KeyboardInterrupt:
        # another Ctrl-C ends what Python does as it ends, without a traceback; nor does it show one
        # of a pool whose processes the first one has ended (concurrent.futures, `_python_exit`)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.unraisablehook = lambda unraisable: None
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    else:
        return
    print(f"Error: {message}", file=sys.stderr)
    sys.exit(code)


def unwritable(path: Path | str, error: OSError) -> InputError:
    """Return the `InputError` for a file that the system does not let us write."""
    return InputError(
        f"{path}: cannot be written: {error.strerror}; what is finished is kept; make room or change its rights, and "
        "run again"
    )
