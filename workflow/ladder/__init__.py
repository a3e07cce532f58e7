"""Gemm Ladder: compile, verify, time and draw GEMM kernels. CONTRIBUTING.md is the map of the modules."""

import sys
from types import TracebackType


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tell of an error that nobody caught; of Ctrl-C, as while modules are imported, in one line."""
    if issubclass(kind, KeyboardInterrupt):
        print("Interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _end
