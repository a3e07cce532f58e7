"""Open each published dataset once: its samples and tables are shared by all tests of this folder.

Everything here recomputes committed files and compares them with what is committed. Run it with `make check-published`, in one process.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import told_apart
from ladder.analysis import compare, dataset_tables, repeatability
from ladder.analysis.finalists import Confirmed
from ladder.claims import evidence, judge
from ladder.core.files import ROOT
from ladder.model.kernel_file import discover
from ladder.publishing import page_data as story_data
from ladder.publishing.page_data import Story
from ladder.storage.dataset_layout import PUBLISHED, files


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, before pytest selects by markers."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.published)


def once(function: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes each result once; `key` makes the dictionary key from its arguments."""
    results: dict[Any, Any] = {}

    def call(*arguments: Any) -> Any:
        found = key(*arguments)
        if found not in results:
            results[found] = function(*arguments)
        return results[found]

    return call


@pytest.fixture(scope="session", autouse=True)
def opened() -> Iterator[SimpleNamespace]:
    """Reading samples, making tables, and reading one side of a comparison, each done once for a dataset.

    The modules that look at datasets use these in place of their own. Tables have the models of all kernels, whoever asks; those of repeats,
    from which nothing is drawn, have none.
    """
    kernels = discover(ROOT).values()
    load = once(dataset_tables.load, lambda samples, environment: tuple(samples))
    tables = once(lambda folder: of_folder(folder, kernels if folder.parent == ROOT / PUBLISHED else ()), lambda folder: folder)
    of_folder = dataset_tables.of_folder

    def tables_of(folder: Path, kernels: Any = ()) -> Any:
        found, environment = tables(folder)
        return {name: table.copy() for name, table in found.items()}, environment  # nobody's changes reach another test

    def read_side(folder: Path) -> compare.Side:
        found, environment = tables_of(folder)
        records, sessions = load(files(folder), environment)
        binaries = {
            (row["kernel"], row["element_type"], row["configuration"]): row["sha256"]
            for row in found["resources"].to_dict("records")
        }
        return compare.Side(folder, environment, found["best"], binaries, Confirmed(records), sessions[-1]["code"])

    patch = pytest.MonkeyPatch()
    for module in (dataset_tables, repeatability, compare):
        patch.setattr(module, "load", load)
    for module in (dataset_tables, repeatability, evidence, story_data, compare):
        patch.setattr(module, "of_folder", tables_of)
    patch.setattr(told_apart, "read_side", read_side)
    yield SimpleNamespace(tables=tables_of, kernels={kernel.name: kernel for kernel in kernels})
    patch.undo()


@pytest.fixture(scope="session")
def published() -> Path:
    return ROOT / PUBLISHED


@pytest.fixture(scope="session")
def datasets(published: Path) -> dict[str, Path]:
    """The folders of the published datasets, those of repeats too, by their paths in results/published."""
    found = {path.parent.relative_to(published).as_posix(): path.parent for path in sorted(published.rglob("environment.json"))}
    assert len(found) > 10
    return found


@pytest.fixture(scope="session")
def of_published(opened: SimpleNamespace) -> list[dict[str, Any]]:
    """What the published data say to the claims, judged anew."""
    return judge.of_published(ROOT)


@pytest.fixture(scope="session")
def story(opened: SimpleNamespace) -> Story:
    """What the pages are filled from."""
    return Story(ROOT)
