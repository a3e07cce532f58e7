"""Open and evaluate each published dataset once: its samples and tables are shared by all tests of
this folder.

Everything here recomputes committed files and compares them with what is committed. Run it with
`make check-published`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ladder.analysis.dataset import Dataset
from ladder.claims import judge
from ladder.core.places import HOME
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import discover
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import featured, runs

from book.data import Story


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, before pytest selects by markers."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.published)


@pytest.fixture(scope="session", autouse=True)
def opened() -> Iterator[Callable[[Path], Dataset]]:
    """Opens each dataset once, and makes its tables once, for the tests and for all that they call.

    A dataset has the models of all kernels, whoever opens it. Repeats, from which nothing is drawn,
    have none.
    """
    kernels, read, evaluated = discover(HOME).values(), Dataset.open, cache(Dataset.tables)
    shown = set(featured(HOME / PUBLISHED).values())

    @cache
    def open_once(folder: Path) -> Dataset:
        return read(folder, kernels if folder in shown else ())

    def open_any(folder: Path, kernels: Iterable[Kernel] = ()) -> Dataset:
        # of tests' own small checkouts, which they publish again, nothing is kept
        return open_once(folder) if HOME in folder.parents else read(folder, kernels)

    patch = pytest.MonkeyPatch()
    patch.setattr(Dataset, "open", open_any)
    patch.setattr(
        Dataset, "tables", lambda self, names: {name: evaluated(self)[name] for name in names}
    )
    yield open_once
    patch.undo()


@pytest.fixture(scope="session")
def published() -> Path:
    return HOME / PUBLISHED


@pytest.fixture(scope="session")
def datasets(published: Path) -> dict[str, Path]:
    """The folders of the published datasets, those of repeats too, by their names."""
    folders = runs(published)
    assert len(folders) > 10
    return folders


@pytest.fixture(scope="session")
def of_published(opened: Callable[[Path], Dataset]) -> list[dict[str, Any]]:
    """What the published data say to the claims, judged anew."""
    return judge.of_published(HOME)


@pytest.fixture(scope="session")
def story(opened: Callable[[Path], Dataset], of_published: list[dict[str, Any]]) -> Story:
    """What the pages are filled from."""
    story = Story(HOME)
    story.entries = of_published
    return story
