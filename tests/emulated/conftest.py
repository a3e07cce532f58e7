"""Emulated tests need tools from Debian's archive; without them they are skipped with the reason, and in CI they fail."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "workflow")]

import emulator  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """Skip everything here where a tool is absent, but let CI, which installs them, fail."""
    reason = emulator.missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    elif reason:
        pytest.skip(reason)
