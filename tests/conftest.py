"""Fixtures for all tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from planted import Project


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first: processes that share the tests end together."""
    order = ["workflow", "emulated"]
    items.sort(key=lambda item: order.index(item.path.parent.name) if item.path.parent.name in order else len(order))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    return lambda: Project(tmp_path_factory.mktemp("shared") / "project")
