"""Open and evaluate each published dataset once: its samples and tables are shared by all tests of
this folder.

Everything here recomputes committed files and compares them with what is committed. Run it with
`make check-published`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


READ, EVALUATED = Dataset.open, cache(Dataset.tables)


@cache
def open_once(folder: Path) -> Dataset:
    """A dataset has the models of all kernels, whoever opens it. Repeats, from which nothing is
    drawn, have none.
    """
    shown = folder in featured(HOME / PUBLISHED).values()
    return READ(folder, discover(HOME).values() if shown else ())


def open_any(folder: Path, kernels: Iterable[Kernel] = ()) -> Dataset:
    # of tests' own small checkouts, which they publish again, nothing is kept
    return open_once(folder) if HOME in folder.parents else READ(folder, kernels)


@contextmanager
def sharing() -> Iterator[None]:
    """Each dataset is opened once, and its tables are made once, for all that open it here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dataset, "open", open_any)
        patch.setattr(
            Dataset, "tables", lambda self, names: {name: EVALUATED(self)[name] for name in names}
        )
        yield


@pytest.fixture(autouse=True)
def opened() -> Iterator[Callable[[Path], Dataset]]:
    """Opens datasets. Tests of other folders, in the same process, open them for themselves."""
    with sharing():
        yield open_once


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
def of_published() -> list[dict[str, Any]]:
    """What the published data say to the claims, judged anew."""
    with sharing():
        return judge.of_published(HOME)


@pytest.fixture(scope="session")
def story(of_published: list[dict[str, Any]]) -> Story:
    """What the pages are filled from."""
    story = Story(HOME)
    story.entries = of_published
    return story
