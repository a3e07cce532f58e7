"""A real Slurm on this machine: two nodes with two made-up GPUs each, and Snakemake that submits to
it.
"""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import psutil
from planted import Project, written
from waiting import LIMIT, wait_until

CONF = Path(__file__).parents[1] / "cluster" / "slurm.conf"
PROMPT = Path(__file__).parent / "prompt.py"
ETC = Path("/etc/slurm")
"""Where Slurm's commands, and the jobs that call them, look for the configuration."""
GPUS = {"n1": "red", "n2": "blue"}
"""Each node's type of GPU."""
ENDED = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")
"""The states in which nothing of a job runs any more."""
PROLOG = """#!/bin/sh
echo "$SLURMD_NODENAME ${{CUDA_VISIBLE_DEVICES:-none}}" >> {folder}/slots/$SLURM_JOB_ID
[ -e {folder}/limits/$SLURM_JOB_ID ] && exit
scontrol -o show job $SLURM_JOB_ID | grep -o 'TimeLimit=[^ ]*' > {folder}/limits/$SLURM_JOB_ID
scontrol update JobId=$SLURM_JOB_ID TimeLimit=600 > /dev/null
scontrol show job $SLURM_JOB_ID | grep -q Comment=rule_measure || exit 0
touch {folder}/together/$SLURMD_NODENAME.$SLURM_JOB_ID
for _ in $(seq {tries}); do
  [ $(ls {folder}/together | grep -c "^$SLURMD_NODENAME[.]") -lt 2 ] || break
  sleep 0.1
done
"""
"""At the start of a job, note where it runs and the time it asked for, which becomes ten hours. The
first two measure jobs of each node wait for each other.
"""


@dataclass
class Job:
    """What Slurm knows of a job, and where its task ran."""

    id: str
    state: str
    rule: str
    """The plugin's comment: rule and wildcards."""
    start: datetime
    end: datetime
    minutes: int
    memory_mb: int
    slots: list[tuple[str, str]]
    """Each node that it ran on, with CUDA_VISIBLE_DEVICES there."""


def wait(there: Callable[[], object], what: str) -> None:
    """Wait until something is there; asking Slurm takes a process."""
    wait_until(there, what, 0.2)


def end(processes: Sequence[psutil.Process | subprocess.Popen[bytes]]) -> None:
    """Kill processes, those of them that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


class Slurm:
    """The daemons, and what the tests ask them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name in ("state", "slots", "limits", "together", *GPUS):
            (self.folder / name).mkdir()
        for index in range(2):
            # as /dev/null
            os.mknod(self.folder / f"gpu{index}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        written(
            self.folder / "task_prolog",
            PROLOG.format(folder=self.folder, tries=round(10 * LIMIT)),
            0o755,
        )
        ETC.mkdir(exist_ok=True)
        (ETC / "slurm.conf").write_text(CONF.read_text().replace("{folder}", str(self.folder)))
        gres = [
            f"NodeName={node} Name=gpu Type={kind} File={self.folder}/gpu[0-1]\n"
            for node, kind in GPUS.items()
        ]
        (ETC / "gres.conf").write_text("".join(gres))
        if not self.ask("munge", "--no-input"):
            Path("/run/munge").mkdir(exist_ok=True)
            shutil.chown("/run/munge", "munge", "munge")
            # forced, for one that was killed leaves its socket
            as_munge = ("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups")
            self._daemon("munged", *as_munge, "munged", "--foreground", "--force")
            wait(lambda: self.ask("munge", "--no-input"), "munged")
        self._daemon("slurmctld", "slurmctld", "-D", "-c")
        self.start_nodes()

    def start_nodes(self) -> None:
        """Start the nodes that do not run, and wait until all are idle."""
        for node in GPUS:
            if node not in self.daemons or self.daemons[node].poll() is not None:
                self._daemon(node, "slurmd", "-D", "-N", node)
        wait(lambda: set(self.states().values()) == {"idle"}, f"the nodes; logs in {self.folder}")

    def _daemon(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )

    def stop(self) -> None:
        """End all that was started: nothing of it is needed any more."""
        Run.kill_all()
        end([*self.steps(""), *self.daemons.values()])
        for daemon in self.daemons.values():
            daemon.wait()
        for name in ("slurm.conf", "gres.conf"):
            (ETC / name).unlink()

    def tidy(self) -> None:
        """End what a test has left, passed or failed, so that the next one finds the cluster as it
        was.
        """
        Run.kill_all()
        self.ask("scancel", "--user=root")
        wait(lambda: all(job.state in ENDED for job in self.jobs()), "all jobs to end")
        self.start_nodes()

    def steps(self, job: str) -> list[psutil.Process]:
        """The processes of a job's steps, or of all jobs'."""
        processes = psutil.process_iter(["cmdline"])
        steps = [
            p
            for p in processes
            if " ".join(p.info["cmdline"] or []).startswith(f"slurmstepd: [{job}")
        ]
        return [process for step in steps for process in (step, *step.children(recursive=True))]

    def hold(self) -> None:
        """Stop what the jobs compute, until they are killed or cancelled: however long the test
        takes, they are not done before.
        """
        for process in self.steps(""):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name().startswith("python"):
                    process.suspend()

    def kill_node(self, node: str, job: str) -> None:
        """Do what a power cut does: the node's daemon and every process of the job end at once.

        The controller would notice after `SlurmdTimeout` and then hold the job back until its
        credentials expire. Here it does both at once.
        """
        end([self.daemons[node], *self.steps(f"{job}.")])
        self.daemons[node].wait()
        self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")
        wait(
            lambda: any(j.id == job and j.state == "PENDING" for j in self.jobs()),
            "the job to be queued again",
        )
        self.ask("scontrol", "update", f"JobId={job}", "StartTime=now")

    def ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def states(self) -> dict[str, str]:
        """Each node's state."""
        lines = self.ask("sinfo", "-h", "-N", "-p", "all", "-o", "%N %T").splitlines()
        return dict(line.split() for line in lines)

    def jobs(self) -> list[Job]:
        """Every job since the start."""
        lines = self.ask("scontrol", "-o", "show", "job").splitlines()
        facts = [dict(part.split("=", 1) for part in line.split() if "=" in part) for line in lines]
        jobs = [self._job(job) for job in facts if "JobId" in job]
        return sorted(jobs, key=lambda job: int(job.id))

    def _job(self, facts: dict[str, str]) -> Job:
        def noted(folder: str) -> str:
            path = self.folder / folder / facts["JobId"]
            return path.read_text().strip() if path.exists() else ""

        def time_of(key: str) -> datetime:
            return datetime.fromisoformat(facts[key] if "T" in facts[key] else "2999-01-01")

        # its own limit is no longer what it asked for
        limit = noted("limits").partition("=")[2] or facts["TimeLimit"]
        hours, minutes, _ = limit.split(":")
        memory = facts["MinMemoryNode"]
        slots = [tuple(line.split()) for line in noted("slots").splitlines()]
        return Job(
            id=facts["JobId"],
            state=facts["JobState"],
            rule=facts.get("Comment", ""),
            start=time_of("StartTime"),
            end=time_of("EndTime"),
            minutes=60 * int(hours) + int(minutes),
            memory_mb=int(memory.rstrip("M")) if memory.endswith("M") else 0,
            slots=list(dict.fromkeys(slots)),
        )


class Run:
    """Snakemake submitting, in the background."""

    started: ClassVar[list["Run"]] = []

    def __init__(self, project: Project, *arguments: str, **environment: str) -> None:
        self.log = project.folder / f"snakemake-{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [project.python, PROMPT, *arguments],
                cwd=project.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | {"NO_COLOR": "1"} | environment,
                start_new_session=True,
                # a shell's background jobs, of which these tests may be one, ignore Ctrl-C
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.started.append(self)

    def output(self) -> str:
        return self.log.read_text()

    def running(self) -> bool:
        return self.process.poll() is None

    def ok(self) -> str:
        """Wait for it, it must succeed; returns what it printed."""
        assert self.process.wait(LIMIT) == 0, self.output()[-8000:]
        return self.output()

    def fails(self) -> str:
        """Wait for it, it must not succeed; returns what it printed."""
        assert self.process.wait(LIMIT) != 0, self.output()[-8000:]
        return self.output()

    @classmethod
    def kill_all(cls) -> None:
        """Kill every run, and what it is just calling: nothing is submitted any more."""
        for run in cls.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.process.pid, signal.SIGKILL)
            run.process.wait()
        cls.started.clear()
