"""What happens to a campaign when the machine misbehaves: killed processes, read-only disks,
interrupts, folders with odd names.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import faults
import psutil
import pytest
from ladder.cli import publish
from ladder.core.errors import INTERRUPTED
from ladder.devices.detect import detect_cpu
from ladder.pipeline.messages import ENDED
from ladder.storage import samples as records
from ladder.storage.journal import key_of
from planted import HOME, Project
from waiting import wait_until

pytestmark = pytest.mark.slow

TINY = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: [cpu/02_reordered_ikj]
problems: {{cpu: [{{square: [24, 32, 48]}}]}}
baselines: {{cpu: [blas_1]}}
measure: {{min_samples: {samples}, max_samples: {samples}, max_seconds: 3600, target: 1.0e-9, race: false, sample_us: {us}}}
confirm: {{processes: 0}}
"""
DEVICE = f"results/tiny/{detect_cpu().slug}"
JOURNAL, SAMPLES = (
    f"{DEVICE}/journals/02_reordered_ikj.float32.journal",
    f"{DEVICE}/samples/float32.parquet",
)
CONFIG = ("--configfile", "config/test.yaml")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Project:
    """A project below a folder with a space in its name, whose campaign is compiled and not
    measured.
    """
    project = Project(tmp_path_factory.mktemp("robust") / "it's with" / "a space")
    project.campaign(TINY.format(samples=5, us=500))
    project.ok(*CONFIG, "--until", "probe", "compile")
    return project


@pytest.fixture
def tiny(built) -> Project:
    """The same with nothing measured yet."""
    for path in (built.folder / DEVICE).glob("*/*float32*"):
        path.unlink()
    built.campaign(TINY.format(samples=5, us=500))
    return built


@contextlib.contextmanager
def running(project, *arguments, there, **environment):
    """Snakemake once something is there, as the leader of a process group of its own, which Ctrl-C
    reaches. It prints to the file `log`.
    """
    with (project.folder / "log").open("wb") as file:
        run = subprocess.Popen(
            [project.python, "-m", "snakemake", "--cores", "2", *arguments],
            cwd=project.folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"NO_COLOR": "1"} | environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        wait_until(lambda: run.poll() is not None or there(), "Snakemake to come so far")
        assert run.poll() is None, (project.folder / "log").read_text()
        yield run
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


STOP = """
import os, signal

_fsync = os.fsync


def fsync(file):
    _fsync(file)
    path = os.readlink(f"/proc/self/fd/{file}")
    if path.endswith(".journal") and open(path).read().count('"samples_us"') == 2:
        os.kill(os.getpid(), signal.SIGSTOP)


if "STOP" in os.environ:
    os.fsync = fsync
"""
"""Imported at every start of Python in a project: the job that measures stops itself once its
journal has two measurements.
"""


def measured(journals):
    """The measurements that a folder's journals have, by key."""
    lines = [line for path in journals.glob("*.journal") for line in path.read_bytes().splitlines()]
    lines = filter(key_of, lines)
    records = [json.loads(line.partition(b" ")[2]) for line in lines]
    return {record["key"]: record["samples_us"] for record in records if record.get("samples_us")}


def test_killed_while_it_measures_nothing_is_lost(tiny):
    """All of its processes at once. tests/unit/test_resume.py kills at every write, without
    processes.
    """
    (packages,) = tiny.folder.glob(".venv/lib/python*/site-packages")
    (packages / "stop.py").write_text(STOP)
    (packages / "stop.pth").write_text("import stop\n")
    journals = (tiny.folder / JOURNAL).parent
    with running(
        tiny, SAMPLES, *CONFIG, there=lambda: len(measured(journals)) == 3, STOP="1"
    ) as run:
        processes = psutil.Process(run.pid).children(recursive=True)
        assert len(processes) >= 2  # the job, and the process in which it runs kernels
        os.killpg(run.pid, signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
    _, alive = psutil.wait_procs(processes, timeout=60)
    # in a container nothing reaps them
    assert [
        process
        for process in alive
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ] == []
    before = measured(journals)
    tiny.ok(SAMPLES, *CONFIG)
    rows, session = records.read(tiny.folder / SAMPLES)
    assert {row["status"] for row in rows} == {"correct"}
    assert session["measured"] == len(rows) - len(before) == 3
    assert {row["key"]: row["samples_us"] for row in rows if row["key"] in before} == before


def interrupt(project, *arguments, once):
    """Ctrl-C twice, as the terminal sends it, to all processes of a run, once a file is written;
    returns what the run printed.
    """
    with running(
        project,
        *arguments,
        there=lambda: any(path.stat().st_size for path in project.folder.glob(once)),
    ) as run:
        os.killpg(run.pid, signal.SIGINT)
        wait_until(lambda: ENDED in project.logged(), "Snakemake to end its jobs")
        os.killpg(run.pid, signal.SIGINT)
        assert run.wait() == 1
    return (project.folder / "log").read_text()


def test_what_is_interrupted_while_it_measures_ends_with_a_line_that_says_so(tiny):
    tiny.campaign(TINY.format(samples=10_000, us=100_000))  # which takes hours
    output = interrupt(tiny, SAMPLES, *CONFIG, once=JOURNAL)
    assert output.rstrip().splitlines()[-1] == INTERRUPTED
    assert "Traceback" not in output, output


DRAWN = "    save(draw(name, data), stem, formats)\n"
"""Where a process that draws has finished a figure: the copy of the project waits there."""


def test_what_is_interrupted_while_it_draws_ends_with_a_line_that_says_so(project):
    figures = project.folder / "workflow" / "ladder" / "figures" / "draw.py"
    assert figures.read_text().count(DRAWN) == 1
    figures.write_text(
        figures.read_text().replace(DRAWN, f"{DRAWN}    __import__('time').sleep(600)\n")
    )
    folder = project.publish(1)
    (folder / "figures").mkdir()
    (folder / "figures" / "ladder-warm.svg").touch()
    publish.write_sums(folder, folder / "nothing")
    drawn = "results/redrawn/nvidia-a/default/figures"
    output = interrupt(project, drawn, once=f"{drawn}/*.svg")
    assert output.rstrip().splitlines()[-1] == INTERRUPTED
    assert "Traceback" not in output, output


def test_a_folder_that_cannot_be_written_is_one_clear_message(project):
    # where nobody makes folders, root neither
    (project.folder / "results").symlink_to("/sys/kernel")
    done = project.snakemake("--config", "campaign=smoke", "devices=[cpu]")
    assert done.returncode != 0
    assert faults.MACHINE["read_only"].reason in done.stdout
    assert "Traceback" not in done.stdout


def test_a_damaged_journal_stops_its_job_with_a_clear_message(tiny):
    journal = tiny.write(JOURNAL, "what is this\n")
    done = tiny.snakemake(SAMPLES, *CONFIG)
    assert done.returncode != 0
    assert f"02_reordered_ikj.float32.journal: {faults.MACHINE['damaged'].reason}" in done.stdout
    assert "Traceback" not in done.stdout
    errors = [line for line in done.stdout.splitlines() if line.startswith("Error: ")]
    assert errors == done.stdout.splitlines()[-1:]
    assert journal.read_text() == "what is this\n"


def test_a_checkout_is_not_run_with_the_package_of_another(project):
    """tests/unit/test_start.py has what else is checked before a run."""
    project.python = sys.executable
    refused = project.snakemake("--dry-run")
    assert refused.returncode == 1
    assert (
        f"Error: {sys.executable}: runs the package of {HOME}; expected that of {project.folder}, "
        "which" in refused.stdout
    )
    assert "Traceback" not in refused.stdout


def test_jobs_in_the_image_have_the_package_of_this_checkout(project, monkeypatch):
    """In an Apptainer made up here, which says what it is asked for and fails."""
    (project.folder / "gemm-ladder.sif").touch()
    script = (
        '#!/bin/sh\n[ "$1" = --version ] && echo apptainer version 1.4.5 || '
        '! echo asked: "$APPTAINER_BIND" "$@"\n'
    )
    tool = project.write("bin/apptainer", script)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    project.campaign(TINY.format(samples=5, us=500))
    output = project.snakemake(
        *CONFIG, "--sdm", "apptainer", "--apptainer-args=--nv", "--until", "support"
    ).stdout
    (asked,) = re.findall("^asked: .*", output, re.MULTILINE)
    assert asked.startswith(f"asked: {project.folder}:/opt/gemm-ladder exec ")
    assert " --nv " in asked
