"""What happens to a campaign when the machine misbehaves: killed processes, full and read-only disks, two runs at once."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import faults
import kill
import pytest
from ladder import records
from ladder.environment import detect_cpu
from ladder.jobs import INTERRUPTED
from ladder.lock import exclusive
from planted import C_RIGHT, ROOT, Project, c_kernel, interpreter

SLOW = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: {kernels}
problems: {{cpu: [{{square: 48}}]}}
measure: {{min_samples: {samples}, max_samples: {samples}, target: 0.000001, race: false, sample_us: 500, timeout_seconds: 60}}
confirm: {{processes: 0}}
"""


def test_killed_anywhere_nothing_is_lost(tmp_path):
    """A few of the kills that `studies/kill.py` does by the dozen."""
    counted = kill.kill(2, 7, tmp_path / "project", ("child", "all"), ("--until", "aggregate"))
    assert counted["kills"] == 2


def test_a_full_disk_is_one_clear_message_and_nothing_is_lost(project):
    """No file may grow beyond a limit, which stands for the disk: a journal meets it after some measurements."""
    many = c_kernel("many", C_RIGHT).replace(
        "---*/", "parameters: {U: 1}\nsweep: {U: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}\n---*/", 1
    )
    project.write("kernels/cpu/90_many.c", many)
    command = ["--configfile", project.campaign(SLOW.format(kernels="[cpu/90_many]", samples=250)), "--forcerun", "measure"]
    project.ok(*command, "--until", "probe", "compile")
    script = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000)); "
        "sys.argv[0] = 'snakemake'; runpy.run_module('snakemake', run_name='__main__')"
    )
    full = subprocess.run(
        [project.python, "-c", script, "--cores", "1", *command, "--until", "measure"],
        cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert full.returncode != 0
    # the last write is cut short, as by a disk with little room, or refused, as by a limit
    told = faults.MACHINE["full"].reason
    assert f"90_many.float32.journal: {told}" in full.stdout.replace("File too large", "No space left on device"), full.stdout
    assert full.stdout.count("cannot be written") == 2  # where it happens, and once more at the end
    assert "Traceback" not in full.stdout
    (journal,) = project.folder.glob("results/tiny/*/journals/90_many.float32.journal")
    made = journal.parents[1] / "samples" / "90_many.float32.parquet"
    assert not made.exists()
    whole = list(filter(None, (records._parse(line) for line in journal.read_bytes().split(b"\n"))))
    measured = [record for record in whole if record.get("samples_us")]
    assert 1 <= len(measured) < 12 <= len(whole)  # and what passed the gauntlet
    project.ok(*command, "--until", "measure")
    rows, _ = records.read(made)
    assert len(rows) == 12
    final = {row["key"]: row["samples_us"] for row in rows}
    assert all(final[record["key"]] == record["samples_us"] for record in measured)


@pytest.mark.parametrize("during", ["rule measure", "rule figures"])
def test_what_is_interrupted_ends_with_a_line_that_says_so(project, during):
    """Ctrl-C, as the terminal sends it: to all processes."""
    config = project.campaign(SLOW.format(kernels="[cpu/02_reordered_ikj]", samples=2000 if "measure" in during else 5))
    run = subprocess.Popen(
        [project.python, "-m", "snakemake", "--cores", "2", "--configfile", config],
        cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env=os.environ | {"NO_COLOR": "1"}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert run.stdout
    while during not in (line := run.stdout.readline()):
        assert line
    time.sleep(1.5)
    os.killpg(run.pid, signal.SIGINT)
    said = run.stdout.read()
    assert run.wait() == 1
    assert said.rstrip().splitlines()[-1] == INTERRUPTED
    assert "Traceback" not in said, said


def test_a_folder_that_cannot_be_written_is_one_clear_message(project):
    (project.folder / "results").symlink_to("/sys/kernel")  # where nobody makes folders, root neither
    done = project.snakemake("--config", "campaign=smoke", "devices=[cpu]")
    assert done.returncode != 0
    assert faults.MACHINE["read_only"].reason in done.stdout
    assert "Traceback" not in done.stdout


def test_a_damaged_journal_stops_its_job_with_a_clear_message(project):
    config = project.campaign(SLOW.format(kernels="[cpu/02_reordered_ikj]", samples=5))
    journal = project.write(f"results/tiny/{detect_cpu().slug}/journals/02_reordered_ikj.float32.journal", "what is this\n")
    done = project.snakemake("--configfile", config, "--until", "measure")
    assert done.returncode != 0
    assert f"02_reordered_ikj.float32.journal: {faults.MACHINE['damaged'].reason}" in done.stdout
    assert "Traceback" not in done.stdout
    assert journal.read_text() == "what is this\n"


def hold(uuid: str, ready: Connection, user: int) -> None:
    os.setuid(user)
    with exclusive([uuid]) as (held, _):
        ready.send(held)
        time.sleep(600)


@pytest.fixture
def holder() -> Iterator[BaseProcess]:
    """A process, another user's where we may become one, that holds the device GPU-held."""
    fork = get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=hold, args=("GPU-held", theirs, os.getuid() or 65534))
    process.start()
    assert ours.recv() == "GPU-held"
    yield process
    process.kill()
    process.join()


def test_a_device_has_one_timer_whoever_asks(holder, capfd):
    with exclusive(["GPU-held", "GPU-free"]) as (uuid, _):
        assert uuid == "GPU-free"  # a second GPU of the model is taken at once
    with ThreadPoolExecutor() as pool:

        def ask() -> str:
            with exclusive(["GPU-held"]) as (uuid, _):
                return uuid

        waiting = pool.submit(ask)
        time.sleep(1.2)
        assert not waiting.done()
        holder.kill()  # no lock outlives its holder
        assert waiting.result(timeout=600) == "GPU-held"
    said = capfd.readouterr().err
    assert said.count(f"GPU-held: {faults.MACHINE['held'].reason} (process {holder.pid}: ") == 1


def test_the_lock_is_held_until_the_last_process_that_uses_the_device_is_gone():
    with exclusive(["GPU-shared"]) as (_, lock):
        other = subprocess.Popen(["sleep", "60"], pass_fds=[lock])
    with socket.socket(socket.AF_UNIX) as mine, pytest.raises(OSError, match="in use"):
        mine.bind("\0gemm-ladder GPU-shared")
    other.kill()
    other.wait()
    with exclusive(["GPU-shared"]):
        pass


ALONE = """
  int busy = open("{0}", O_CREAT | O_EXCL, 0600);
  if (busy < 0) return; /* another kernel runs: C stays unwritten, which is incorrect */
  usleep(3000);
""" + C_RIGHT + """
  close(busy);
  unlink("{0}");
"""  # fmt: skip


def test_two_runs_at_once_never_measure_at_once(make_project, tmp_path):
    body = ALONE.replace("{0}", str(tmp_path / "busy"))
    kernel = c_kernel("alone", body).replace("#include", "#include <fcntl.h>\n#include <unistd.h>\n#include", 1)
    projects = [make_project(), make_project()]
    for project in projects:
        project.write("kernels/cpu/90_alone.c", kernel)
        project.campaign(SLOW.format(kernels="[cpu/90_alone]", samples=200))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda p: p.ok("--configfile", "config/test.yaml", "--until", "measure"), projects))
    for project in projects:
        (path,) = project.folder.glob("results/tiny/*/samples/90_alone.float32.parquet")
        rows, _ = records.read(path)
        assert [row["status"] for row in rows] == ["correct"]
        assert min(rows[0]["samples_us"]) >= 3000  # a call that found the other's returned at once


def test_a_checkout_is_not_run_with_the_package_of_another(project):
    project.python = sys.executable
    refused = project.snakemake("--dry-run")
    assert refused.returncode == 1
    assert f"Error: {sys.executable}: runs the package of {ROOT}; expected that of {project.folder}, which" in refused.stdout
    assert "Traceback" not in refused.stdout


def test_a_checkout_is_not_run_without_its_package(project):
    """A job would not find it; Snakemake, which finds that beside its file, would."""
    project.write("elsewhere/ladder/__init__.py", "raise ImportError")
    project.python = interpreter(project.folder / "without", project.folder / "elsewhere")
    refused = project.snakemake("--dry-run")
    assert refused.returncode == 1
    assert f"runs the package of no checkout; expected that of {project.folder}, which" in refused.stdout
    assert "Traceback" not in refused.stdout


def test_a_project_may_lie_below_a_folder_with_a_space_in_its_name(tmp_path):
    project = Project(tmp_path / "it's with" / "a space")
    project.ok("--config", "campaign=smoke", "kernels=[cpu/01_naive_ijk]", "--until", "aggregate")
    assert (project.table("smoke-*/*/best.csv")["kernel"] == "01_naive_ijk").any()


@pytest.mark.parametrize("name", ["with space", "it's"])
def test_a_name_by_which_no_job_could_be_started_is_refused(project, name):
    project.python = interpreter(project.folder / name, project.folder / "workflow")
    refused = project.snakemake("--dry-run")
    assert refused.returncode == 1
    assert f"Error: {name}/bin/python: has a space, a quote or the like in its path from here" in refused.stdout
    assert "Traceback" not in refused.stdout


def test_jobs_in_the_image_have_the_package_of_this_checkout(project, monkeypatch):
    """In an Apptainer made up here, which says what it is asked for and fails."""
    (project.folder / "gemm-ladder.sif").touch()
    script = '#!/bin/sh\n[ "$1" = --version ] && echo apptainer version 1.4.5 || ! echo asked: "$@"\n'
    tool = project.write("bin/apptainer", script)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    config = project.campaign(SLOW.format(kernels="[cpu/02_reordered_ikj]", samples=5))
    said = project.snakemake("--configfile", config, "--sdm", "apptainer", "--apptainer-args=--nv", "--until", "support").stdout
    (asked,) = re.findall("^asked: .*", said, re.MULTILINE)
    assert f" --nv --bind {project.folder}:/opt/gemm-ladder " in asked
