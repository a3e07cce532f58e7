"""The pipeline on a real Slurm: every job submitted, and what goes wrong on clusters made to go
wrong.
"""

import itertools
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from clusters import PROMPT, Job, Run, Slurm, wait
from ladder.core.errors import NOTHING_MEASURED
from ladder.devices.detect import detect_cpu
from ladder.storage import journal, samples
from planted import HOME, Project
from prompt import SEEN, states

pytestmark = pytest.mark.slurm

CPU = detect_cpu().slug
# as small as a campaign can be that has a measure job for each GPU of a partition, by element type:
# each job is two starts of Snakemake
SMOKE = """
campaign: smoke
kernels: [cpu/02_reordered_ikj]
element_types: [float32, float64]
baselines: {cpu: [blas_1]}
problems: {cpu: [{square: 64}]}
measure: {min_samples: 5, max_samples: 5, target: 1}
confirm: {processes: 3, rounds: 3, finalists: 1, seconds: 0.05}
"""
# a GPU asked for in both of Slurm's ways
PARTITIONS = f"""
partitions:
  red: {{device: {CPU}, resources: {{slurm_partition: red, gres: "gpu:red:1"}}}}
  blue: {{device: {CPU}, resources: {{slurm_partition: all, constraint: blue, gpu: 1, gpu_model: blue}}}}
"""
# the profile as it is, but for a machine of two cores and tests that do not wait for other people's
# file systems
SUBMIT = (
    "--profile",
    "profiles/slurm",
    "--configfile",
    "config/test.yaml",
    "--set-threads",
    "compile=1",
    "probe=1",
    "measure=1",
    "confirm=1",
    "count=1",
    "figures=1",
    "--slurm-init-seconds-before-status-checks",
    "1",
    "--latency-wait",
    "5",
)
SAMPLES = "results/smoke/red/samples/float32.parquet"
SIX = SMOKE.replace("[{square: 64}]", "[{M: [60, 61, 62], N: [60, 61], K: 64}]")
STOP = """
import os, signal

_fsync = os.fsync


def fsync(file):
    _fsync(file)
    path = os.readlink(f"/proc/self/fd/{file}")
    if path.endswith(".journal") and os.path.exists(path + ".stop"):
        with open(path) as lines, open(path + ".stop") as stop:
            count, ended = stop.read().split()
            if sum('"samples_us"' in line for line in lines) >= int(count) and os.environ["SLURM_JOB_ID"] != ended:
                os.rename(path + ".stop", path + ".stopped")
                os.kill(os.getpid(), signal.SIGSTOP)


os.fsync = fsync
"""
"""Imported at every start of Python in a project: the job that writes to a journal stops itself
after as many measurements as the file
`<journal>.stop` says, unless it is the job that the file names."""


@dataclass
class Submitted:
    """The smoke campaign after it was submitted, and what Slurm knows of its jobs."""

    project: Project
    output: str
    jobs: list[Job]

    def of(self, rule: str) -> list[Job]:
        return [job for job in self.jobs if job.rule.startswith(f"rule_{rule}")]


@pytest.fixture(scope="module")
def smoke(slurm: Slurm, make_project) -> Submitted:
    """The smoke campaign submitted to two partitions. One of its journals is damaged until the job
    that reads it has failed.
    """
    project = make_project()
    project.campaign(SMOKE + PARTITIONS)
    damaged = project.write(
        "results/smoke/blue/journals/02_reordered_ikj.float32.journal", "no record\n"
    )
    run = Run(project, *SUBMIT)
    wait(
        lambda: not run.running() or any(job.state == "FAILED" for job in slurm.jobs()),
        "the job to fail",
    )
    damaged.unlink()
    return Submitted(project, run.ok(), slurm.jobs())


@pytest.fixture
def own(smoke: Submitted, slurm: Slurm, tmp_path: Path) -> Iterator[Project]:
    """The project with the measured campaign, as a test's own: whatever becomes of it, nothing goes
    on, and it is as it was.
    """
    folder, kept = smoke.project.folder, tmp_path / "kept"
    shutil.copytree(folder, kept, symlinks=True)
    try:
        yield smoke.project
    finally:
        slurm.tidy()
        shutil.rmtree(folder)
        kept.rename(folder)


def test_the_whole_smoke_campaign_is_measured_in_two_partitions_and_compared(smoke):
    for name in ("red", "blue"):
        summary = smoke.project.table(f"smoke/{name}/summary.csv")
        assert len(summary) == 2 * (1 + 1)  # a kernel and a baseline
        assert set(summary["status"]) == {"correct"}
        assert (
            smoke.project.folder / f"results/smoke/{name}/figures/performance-warm.svg"
        ).exists()
    assert (smoke.project.folder / "results/smoke/compared-cpu.svg").stat().st_size > 5000
    assert set(smoke.project.table(f"smoke/build/{CPU}/*/resources.csv")["status"]) == {"compiled"}
    assert "localrule" not in smoke.output.replace("localrule all", "")  # every job was submitted


GPU_OF = {"compile": False, "support": False, "tables": False, "compare": False}
GPU_OF |= {"probe": True, "measure": True, "confirm": True}


@pytest.mark.parametrize(("rule", "gpu"), GPU_OF.items())
def test_only_what_runs_on_a_device_has_a_gpu(smoke, rule, gpu):
    slots = [slot for job in smoke.of(rule) for slot in job.slots]
    assert {visible != "none" for _, visible in slots} == {gpu}


def test_no_two_jobs_have_the_same_gpu_at_a_time(smoke):
    jobs = [*smoke.of("measure"), *smoke.of("probe")]
    assert len(jobs) == 2 * 3 + 1  # one has failed and was submitted again
    together = [
        (a.slots[0], b.slots[0])
        for a, b in itertools.combinations(jobs, 2)
        if a.start < b.end and b.start < a.end
    ]
    # on each node two have waited for each other, whatever the machine's load
    assert {a[0] for a, b in together if a[0] == b[0]} == {"n1", "n2"}
    assert [(a, b) for a, b in together if a == b] == []
    used = {("red" if "_red" in job.rule else "blue", *slot) for job in jobs for slot in job.slots}
    nodes = {("red", "n1"), ("blue", "n2")}
    assert used == {(*node, gpu) for node in nodes for gpu in "01"}


def test_what_failed_is_submitted_again_and_asks_for_more(smoke):
    first, second = (
        job for job in smoke.jobs if "measure_wildcards_smoke_blue_float32" in job.rule
    )
    assert [first.state, second.state] == ["FAILED", "COMPLETED"]
    assert (second.memory_mb, second.minutes) == (2 * first.memory_mb, 2 * first.minutes)


def test_the_commands_on_the_page_work(smoke):
    """All in blocks of `sh`; those that cannot be tried here are in blocks of `text`."""
    for page in ("clusters",):
        text = (HOME / "docs" / f"{page}.md").read_text()
        commands = [
            line
            for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
            for line in block.splitlines()
        ]
        assert commands
        for command in commands:
            if "htcondor" in command:
                continue  # tests/workflow/test_partitions.py, where its plugin is installed
            line = command.replace(
                ".venv/bin/snakemake", f"{smoke.project.python} {PROMPT}"
            ).replace("my.yaml", "config/test.yaml")
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                cwd=smoke.project.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            submits = "profiles/slurm" in command and "--dry-run" not in command
            assert done.returncode == (NOTHING_MEASURED if submits else 0), (
                command,
                done.stdout + done.stderr,
            )
            if submits:  # the campaign is measured: nothing is left to do
                assert "1 of 1 steps (100%) done" in done.stdout + done.stderr


class Measuring:
    """A measure job that is submitted, caught in the middle as often as a test wants, and finished
    by a later attempt.
    """

    def __init__(
        self, project: Project, slurm: Slurm, partitions: str, submit: tuple[str, ...] = SUBMIT
    ) -> None:
        self.slurm, self.project, self.submit = slurm, project, submit
        project.campaign(SIX + partitions)
        self.samples = project.folder / SAMPLES
        self.journal = journal.journals_of(self.samples) / "02_reordered_ikj.float32.journal"
        self.before = slurm.jobs()[-1].id
        self.journal.unlink()
        self.kept: list[bytes] = []
        (packages,) = project.folder.glob(".venv/lib/python*/site-packages")
        (packages / "stop_itself.py").write_text(STOP)
        (packages / "stop_itself.pth").write_text("import stop_itself\n")

    def start(self) -> None:
        self.run = Run(self.project, *self.submit, SAMPLES)

    def stop_after(self, count: int, ended: str = "none") -> None:
        """Let the next attempt stop itself there, but not the job that is about to end."""
        self.journal.with_name(self.journal.name + ".stop").write_text(f"{count} {ended}")

    def catch(self) -> Job:
        """Wait until the attempt has stopped itself; returns its job."""
        stopped = self.journal.with_name(self.journal.name + ".stopped")
        wait(lambda: not self.run.running() or stopped.exists(), "the job to stop itself")
        assert self.run.running(), self.run.output()[-8000:]
        self.slurm.hold()
        stopped.unlink()
        self.keep()
        return self.jobs()[-1]

    def keep(self) -> None:
        """Note what is measured; nothing that was may be missing or be there twice."""
        before, self.kept = self.kept, self.lines()
        assert self.kept[: len(before)] == before
        keys = self.keys()
        assert len(keys) == len(set(keys))

    def jobs(self) -> list[Job]:
        return [job for job in self.slurm.jobs() if int(job.id) > int(self.before)]

    def lines(self) -> list[bytes]:
        """The journal's whole lines of measurements; those of the gauntlet have no samples."""
        lines = self.journal.read_bytes().splitlines(keepends=True) if self.journal.exists() else []
        return [line for line in lines if b'"samples_us"' in line and line.endswith(b"\n")]

    def keys(self) -> list[str]:
        return [json.loads(line[9:])["key"] for line in self.lines()]

    def interrupt(self, job: Job) -> None:
        """Ctrl-C. While Snakemake asks how its jobs are it knows of none that it could cancel: wait
        until it does not.
        """
        seen = self.project.folder / SEEN
        wait(
            lambda: seen.exists() and seen.read_text() == states(),
            "Snakemake to have seen the jobs as they are",
        )
        self.run.process.send_signal(signal.SIGINT)
        self.run.fails()
        self.wait_until_cancelled(job)

    def wait_until_cancelled(self, job: Job) -> None:
        wait(
            lambda: any(
                j.id == job.id and j.state == "CANCELLED" and j.end.year < 2999 for j in self.jobs()
            ),
            "the job's end",
        )
        self.keep()

    def finish(self) -> None:
        """It ends well, and nothing that the journal had was measured again."""
        kept = len(self.kept)
        self.run.ok()
        self.keep()
        assert len(self.kept) == 6 > kept > 0
        rows, session = samples.read(self.samples)
        assert {row["key"] for row in rows if row["kernel"] != "blas_1"} == set(self.keys())
        # a baseline follows on each problem
        assert session["measured"] == 2 * 6 - (kept + kept - 1)


def test_a_job_goes_on_where_it_was_after_cancelling_a_dead_node_and_ctrl_c(own, slurm):
    """The same job is cancelled, loses its node and is interrupted: each attempt measures only what
    none before it has.
    """
    resources = '{slurm_partition: all, gres: "gpu:1"}'
    anywhere = f"partitions: {{red: {{device: {CPU}, resources: {resources}}}}}\n"
    caught = Measuring(own, slurm, anywhere)
    caught.stop_after(2)
    caught.start()
    cancelled = caught.catch()
    caught.stop_after(3, cancelled.id)
    slurm.ask("scancel", cancelled.id)
    caught.wait_until_cancelled(cancelled)
    moved = caught.catch()
    assert moved.id != cancelled.id
    ((node, _),) = moved.slots
    caught.stop_after(4)
    slurm.kill_node(node, moved.id)
    interrupted = caught.catch()
    nodes = [node for node, _ in interrupted.slots]
    assert interrupted.id == moved.id  # Slurm has queued it again by itself
    assert len(nodes) == 2
    assert nodes[0] == node != nodes[1]
    assert slurm.states()[node].startswith("down")
    caught.interrupt(interrupted)
    caught.start()
    caught.finish()
    assert [job.state for job in caught.jobs()] == ["CANCELLED", "CANCELLED", "COMPLETED"]


def test_by_its_submit_command_and_after_ctrl_c(own, slurm):
    profile = own.folder / "profiles" / "cluster-generic" / "config.yaml"
    shown = re.findall(
        r"```yaml\n# tested\n(.*?)```", (HOME / "docs" / "clusters.md").read_text(), re.DOTALL
    )
    profile.write_text(
        yaml.safe_dump(yaml.safe_load(profile.read_text()) | yaml.safe_load(shown[0]))
    )
    submit = ("--profile", "profiles/cluster-generic", *SUBMIT[2:10], "--")
    gpu = f"partitions: {{red: {{device: {CPU}, resources: {{gpu: 1}}}}}}\n"
    caught = Measuring(own, slurm, gpu, submit)
    caught.stop_after(3)
    caught.start()
    caught.interrupt(caught.catch())
    caught.start()
    caught.finish()
    cancelled, completed = caught.jobs()
    assert completed.state == "COMPLETED"
    assert [gpu for _, gpu in completed.slots] == ["0"]
    assert (completed.minutes, completed.memory_mb) == (cancelled.minutes, cancelled.memory_mb)


def test_what_no_node_has_is_refused_with_what_to_change(own):
    wrong = {
        "color": ("slurm_partition: red, gres: 'gpu:green:1'", "gres, gpu, gpu_model, constraint"),
        "kind": ("slurm_partition: red, gres: 'fpga:1'", "gres, gpu or gpu_model"),
        "partition": ("slurm_partition: rde, gres: 'gpu:red:1'", "Change slurm_partition"),
    }
    given = "".join(
        f"  {name}: {{device: {CPU}, resources: {{{resources}}}}}\n"
        for name, (resources, _) in wrong.items()
    )
    own.campaign(f"{SMOKE}\npartitions:\n{given}")
    probes = [f"results/smoke/{name}/environment.json" for name in wrong]
    output = Run(own, *SUBMIT, "--retries", "0", "--", *probes).fails()
    for name, (_, keys) in wrong.items():
        assert keys in output, name
    assert output.count("in config/test.yaml under `partitions`") >= len(wrong)


def test_a_campaign_that_names_no_partitions_is_not_submitted(own):
    own.campaign(SMOKE)
    output = Run(own, *SUBMIT).fails()
    assert "Error: config/test.yaml: partitions: missing" in output
    assert "Traceback" not in output
