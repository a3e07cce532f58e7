"""Emulated tests need tools from Debian's archive; without them they are skipped with the reason, and in CI they fail."""

import os

import emulator
import pytest


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """Skip everything here where a tool is absent, but let CI, which installs them, fail."""
    reason = emulator.missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    elif reason:
        pytest.skip(reason)
