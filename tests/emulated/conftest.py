"""All tests here are marked `emulated`. They need tools from Debian's archive: without them they
are skipped, but fail in CI.
"""

import os
from pathlib import Path

import emulator
import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.emulated)


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    """Skip everything here if a tool is missing, or fail in CI, which installs them."""
    reason = emulator.missing()
    if reason and os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    elif reason:
        pytest.skip(reason)
