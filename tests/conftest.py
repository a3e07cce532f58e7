"""Fixtures for all tests, and the guard that keeps the quick ones quick."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from inprocess import InProcess, use_simulated_gpus
from ladder.core import clock
from ladder.devices.simulation import simulated as simulated_gpus
from ladder.measuring import session
from planted import Project
from simulated import Faults, support
from virtual import VirtualClock

CPU_SECONDS = 5.0
"""Seconds of a core that a quick test may use, with the processes that it starts, and without fixtures that it shares with others."""
SLEEP_SECONDS = 0.05
"""What it may sleep for real."""
BESIDE = ("slow", "machine", "published", "emulated", "browser", "cutlass", "triton", "slurm", "container", "gpu")
"""Markers of tests that are not quick."""
HOW = {
    "make test-all": ("slow", "emulated", "browser", "published"), "make test-machine": ("machine",), "make test-cutlass": ("cutlass",),
    "make test-triton": ("triton",),
    "pytest -m gpu": ("gpu",), "pytest -m slurm": ("slurm",), "pytest -m container": ("container",),
}  # fmt: skip
"""How those are run."""

# no test waits for another, nor for whatever else measures on this machine
os.environ["LADDER_LOCK"] = f"gemm-ladder-test-{os.getpid()}-{time.time_ns()}"


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
def gpus(_gpus_folder: Path, monkeypatch: pytest.MonkeyPatch, virtual_clock: VirtualClock) -> Iterator[Path]:
    """Simulated GPUs in this process, in place of the worker's, on a virtual clock; the file that says what they are like."""
    path = use_simulated_gpus(monkeypatch, _gpus_folder)
    monkeypatch.setattr(session, "Child", InProcess)
    monkeypatch.setattr(Faults, "in_process", True)
    yield path
    monkeypatch.undo()
    simulated_gpus.cache_clear()


def _cpu() -> float:
    """Seconds of a core that this process and those that it has waited for have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _is_quick(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(name) for name in BESIDE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Any:
    item.stash[_USED] = [0.0, 0.0]
    return (yield)


_USED = pytest.StashKey[list[float]]()
"""Seconds of a core used, and slept."""


class _Shared:
    """Counts apart what several tests share: it is no single test's cost, whichever comes first. Registered, for the whole session's too."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Any:
        start = _cpu()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                stash = request.node.session.stash
                stash[_SHARED] = stash.get(_SHARED, 0.0) + _cpu() - start


_SHARED = pytest.StashKey[float]()


@contextmanager
def _counted(item: pytest.Item) -> Iterator[None]:
    """Count what a phase of a test uses and sleeps."""
    sleep, slept, shared, start = time.sleep, 0.0, item.session.stash.get(_SHARED, 0.0), _cpu()

    def counted(seconds: float) -> None:
        nonlocal slept
        if sys._getframe(1).f_globals["__name__"] != "subprocess":  # which sleeps while it waits for a process with a time limit
            slept += seconds
        sleep(seconds)

    time.sleep = counted
    try:
        yield
    finally:
        time.sleep = sleep
        used = item.stash[_USED]
        used[0] += _cpu() - start - (item.session.stash.get(_SHARED, 0.0) - shared)
        used[1] += slept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Any:
    with _counted(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    with _counted(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """Fail a quick test that is not quick."""
    report = yield
    if report.when == "call":
        cpu, slept = item.stash[_USED]
        report.user_properties.append(("cpu_seconds", round(cpu, 2)))
        if _is_quick(item) and report.passed and (cpu > CPU_SECONDS or slept > SLEEP_SECONDS):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid}: used {cpu:.1f} s of a core and slept {slept:.2f} s; expected at most {CPU_SECONDS:g} s and "
                f"{SLEEP_SECONDS:g} s of a quick test. Make it cheaper, turn a virtual clock, or mark it `slow`"
            )
    return report


_LEFT_OUT: Counter[str] = Counter()


LONG = (
    "test_smoke", "test_pipeline", "test_robust", "test_result", "test_stale", "test_figure_layout", "test_figure_rates",
    "test_figure_models", "test_gpus", "test_compilers", "test_trial", "test_trial_processes", "test_verify", "test_frauds",
    "test_faults", "test_confirm", "test_studies", "test_command",
)  # fmt: skip
"""The files that take longest, which come first: the processes that share the tests then end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put them first."""
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def pytest_deselected(items: list[pytest.Item]) -> None:
    _LEFT_OUT.update(next((name for name in BESIDE if item.get_closest_marker(name)), "") for item in items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(_LEFT_OUT)


class _Workers:
    """What the processes that share the tests have left out: each the same."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: Any) -> None:
        _LEFT_OUT.update(Counter(node.workeroutput.get("left_out", {})) - _LEFT_OUT if not error else {})


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Shared())
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Workers())


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The slowest ten, and what was left out and how it is run."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.stats.get(name, [])]
    used = sorted(((dict(report.user_properties).get("cpu_seconds", 0.0), report.nodeid) for report in reports), reverse=True)
    if len(used) > 10:
        terminalreporter.section("slowest ten, in seconds of a core")
        for seconds, name in used[:10]:
            terminalreporter.write_line(f"{seconds:6.1f}  {name}")
    for command, names in HOW.items():
        if left := {name: _LEFT_OUT[name] for name in names if _LEFT_OUT[name]}:
            terminalreporter.write_line(
                f"left out: {', '.join(f'{count} {name}' for name, count in left.items())}; `{command}` runs them"
            )
