"""Fixtures for all tests, and the order of the files."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inprocess import InProcess, use_simulated_gpus
from ladder.core import clock
from ladder.devices.simulation import simulated as simulated_gpus
from ladder.measuring import session
from planted import Project
from simulated import support
from virtual import VirtualClock

# no test waits for another, nor for whatever else measures on this machine
os.environ["LADDER_LOCK"] = f"gemm-ladder-test-{os.getpid()}-{time.time_ns()}"


@pytest.fixture(scope="session", autouse=True)
def _store(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One store of what was compiled for this run's tests, with nothing of other runs in it; uv and
    Snakemake keep theirs.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    os.environ["LADDER_STORE"] = str(folder / "store")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Project]:
    return lambda: Project(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture
def virtual_clock() -> Iterator[VirtualClock]:
    """A clock that the test turns, by which everything in this process goes."""
    turned = VirtualClock()
    with clock.use(turned):
        yield turned


@pytest.fixture(scope="session")
def _gpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: what runs on the host in place of a GPU is compiled there once."""
    folder = tmp_path_factory.mktemp("gpus")
    support(folder / "gpus.json")
    return folder


@pytest.fixture
def gpus(
    _gpus_folder: Path, monkeypatch: pytest.MonkeyPatch, virtual_clock: VirtualClock
) -> Iterator[Path]:
    """Simulated GPUs in this process, in place of the worker's, on a virtual clock; the file that
    says what they are like.
    """
    path = use_simulated_gpus(monkeypatch, _gpus_folder)
    monkeypatch.setattr(session, "Child", InProcess)
    monkeypatch.setattr("simulated.in_process", True)
    yield path
    monkeypatch.undo()
    simulated_gpus.cache_clear()


LONG = (
    "test_documented",
    "test_module",
    "test_pipeline",
    "test_robust",
    "test_result",
    "test_stale",
    "test_figure_layout",
    "test_figure_rates",
    "test_figure_models",
    "test_gpus",
    "test_compilers",
    "test_author",
    "test_options",
    "test_drivers",
    "test_other_gpus",
    "test_reproduce",
    "test_growth",
    "test_compile",
    "test_trial",
    "test_trial_processes",
    "test_verify",
    "test_frauds",
    "test_faults",
    "test_confirm",
    "test_studies",
    "test_command",
)
"""The files that take longest, which come first: the processes that share the tests then end
together.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put them first."""
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))
