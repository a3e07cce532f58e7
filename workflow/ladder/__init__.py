"""Gemm Ladder: compile, verify, time and draw GEMM kernels. docs/architecture.md is the map of the
packages.
"""

import sys
from types import TracebackType


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell of an error that nobody caught; in one line of what the user can mend, and of Ctrl-C, as
    while modules are imported.
    """
    if issubclass(kind, KeyboardInterrupt):
        print("Interrupted", file=sys.stderr)
        return
    # not before: after an import, Python would exit with 1 and not as interrupted
    from ladder.core.errors import InputError

    if issubclass(kind, InputError):
        print(f"Error: {error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _end
