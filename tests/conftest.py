"""Fixtures for all tests, their groups and order."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inprocess import InProcess, use_simulated_gpus
from ladder.core import clock
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
def gpus(_gpus_folder: Path, monkeypatch: pytest.MonkeyPatch, virtual_clock: VirtualClock) -> Path:
    """Simulated GPUs in this process, in place of the worker's, on a virtual clock; the file that
    says what they are like.
    """
    path = use_simulated_gpus(monkeypatch, _gpus_folder)
    monkeypatch.setattr(session, "Child", InProcess)
    monkeypatch.setattr("simulated.in_process", True)
    return path


def group(nodeid: str) -> str:
    """The tests that one process runs, because they share what is slow to make: those of a file, or
    all that open published data. Tests with an emulator share nothing.
    """
    path = Path(nodeid.partition("::")[0])
    folder = path.parent.name
    return nodeid if folder == "emulated" else folder if folder == "published" else path.stem


@pytest.hookimpl(optionalhook=True)  # without xdist there is none
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process one group after the other."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group(nodeid)

    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest first: the processes that share the tests then end together."""
    names = {"slow", "cutlass", "triton"}
    long = {
        group(item.nodeid)
        for item in items
        if names.intersection(mark.name for mark in item.iter_markers())
    }

    def place(item: pytest.Item) -> tuple[bool, ...]:
        name, folder = group(item.nodeid), item.path.parent.name
        return folder != "published", name not in long, folder != "emulated"

    items.sort(key=place)
