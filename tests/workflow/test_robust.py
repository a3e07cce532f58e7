"""What happens to a campaign when the machine misbehaves: killed processes, full and read-only disks, interrupts."""

import os
import re
import signal
import subprocess
import sys
import time

import faults
import kill
import pytest
from checkout import interpreter
from ladder.core.errors import INTERRUPTED
from ladder.devices.detect import detect_cpu
from ladder.storage import samples as records
from ladder.storage.journal import _parse
from planted import C_RIGHT, ROOT, Project, c_kernel

pytestmark = pytest.mark.slow

TINY = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: {kernels}
problems: {{cpu: [{{square: 48}}]}}
measure: {{min_samples: {samples}, max_samples: {samples}, max_seconds: 3600, target: 1.0e-9, race: false, sample_us: 500}}
confirm: {{processes: 0}}
"""
TRIVIAL = "[cpu/02_reordered_ikj]"


def test_killed_anywhere_nothing_is_lost(tmp_path):
    """One of the kills that `tests/support/kill.py` does by the dozen. tests/unit/test_resume.py kills at every write, without processes."""
    campaign = kill.CAMPAIGN.replace("[24, 48]", "[24]").replace("cpu/02_reordered_ikj, ", "")
    counted = kill.kill(1, 1, tmp_path / "project", ("all",), ("--until", "aggregate"), campaign)
    assert counted["kills"] == 1


def test_a_full_disk_is_one_clear_message_and_nothing_is_lost(project):
    """No file may grow beyond a limit, which stands for the disk: a journal meets it after some measurements."""
    many = c_kernel("many", C_RIGHT).replace(
        "---*/", "parameters: {U: 1}\nsweep: {U: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}\n---*/", 1
    )
    project.write("kernels/cpu/90_many.c", many)
    command = ["--configfile", project.campaign(TINY.format(kernels="[cpu/90_many]", samples=250)), "--forcerun", "measure"]
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
    whole = list(filter(None, (_parse(line) for line in journal.read_bytes().split(b"\n"))))
    measured = [record for record in whole if record.get("samples_us")]
    assert 1 <= len(measured) < 12 <= len(whole)  # and what passed the gauntlet
    project.ok(*command, "--until", "measure")
    rows, _ = records.read(made)
    assert len(rows) == 12
    final = {row["key"]: row["samples_us"] for row in rows}
    assert all(final[record["key"]] == record["samples_us"] for record in measured)


DRAWN = "    save(draw(name, data), stem, formats)\n"
"""Where a process that draws has finished a figure: the copy of the project waits there."""
DURING = {"measure": "cpu-*/journals/*.journal", "figures": "cpu-*/figures/*.svg"}
"""What is written once a job of a rule is at work."""


@pytest.mark.parametrize("during", DURING)
def test_what_is_interrupted_ends_with_a_line_that_says_so(project, during):
    """Ctrl-C, as the terminal sends it: to all processes."""
    figures = project.folder / "workflow" / "ladder" / "figures" / "draw.py"
    assert figures.read_text().count(DRAWN) == 1
    figures.write_text(figures.read_text().replace(DRAWN, f"{DRAWN}    __import__('time').sleep(600)\n"))
    config = project.campaign(TINY.format(kernels=TRIVIAL, samples=5))
    if during == "measure":  # which takes hours
        config = project.campaign(TINY.format(kernels=TRIVIAL, samples=10_000).replace("sample_us: 500", "sample_us: 100000"))
    log = project.folder / "log"
    with log.open("wb") as file:
        run = subprocess.Popen(
            [project.python, "-m", "snakemake", "--cores", "2", "--configfile", config, "--omit-from", "claims", "index"],
            cwd=project.folder, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"NO_COLOR": "1"}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
    while not any(path.stat().st_size for path in project.folder.glob(f"results/tiny/{DURING[during]}")):
        assert run.poll() is None, log.read_text()
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait() == 1
    said = log.read_text()
    assert said.rstrip().splitlines()[-1] == INTERRUPTED
    assert "Traceback" not in said, said


def test_a_folder_that_cannot_be_written_is_one_clear_message(project):
    (project.folder / "results").symlink_to("/sys/kernel")  # where nobody makes folders, root neither
    done = project.snakemake("--config", "campaign=smoke", "devices=[cpu]")
    assert done.returncode != 0
    assert faults.MACHINE["read_only"].reason in done.stdout
    assert "Traceback" not in done.stdout


def test_a_damaged_journal_stops_its_job_with_a_clear_message(project):
    config = project.campaign(TINY.format(kernels=TRIVIAL, samples=5))
    journal = project.write(f"results/tiny/{detect_cpu().slug}/journals/02_reordered_ikj.float32.journal", "what is this\n")
    done = project.snakemake("--configfile", config, "--until", "measure")
    assert done.returncode != 0
    assert f"02_reordered_ikj.float32.journal: {faults.MACHINE['damaged'].reason}" in done.stdout
    assert "Traceback" not in done.stdout
    said = [line for line in done.stdout.splitlines() if line.startswith("Error: ")]
    assert len(said) == 2  # by the job, and once more at the end
    assert "Finished" not in done.stdout[done.stdout.rindex(said[1]) :]
    assert journal.read_text() == "what is this\n"


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
    project.ok("--configfile", project.campaign(TINY.format(kernels=TRIVIAL, samples=5)), "--until", "measure")
    (samples,) = project.folder.glob("results/tiny/*/samples/02_reordered_ikj.float32.parquet")
    assert {row["status"] for row in records.read(samples)[0]} == {"correct"}


def test_a_name_by_which_no_job_could_be_started_is_refused(project):
    for name in ("with space", "it's"):
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
    config = project.campaign(TINY.format(kernels=TRIVIAL, samples=5))
    said = project.snakemake("--configfile", config, "--sdm", "apptainer", "--apptainer-args=--nv", "--until", "support").stdout
    (asked,) = re.findall("^asked: .*", said, re.MULTILINE)
    assert f" --nv --bind {project.folder}:/opt/gemm-ladder " in asked
