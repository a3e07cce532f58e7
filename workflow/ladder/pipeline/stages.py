"""Show a run on the terminal: a line for each stage that has ended, and a live line with what is
left. Snakemake loads it as the logger plugin `ladder`, which profiles/default names.
"""

import logging
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase

from ladder.core import clock

PROGRESS = re.compile(r"(\d+) of (\d+) measured(?:, about (\d+) s left)?")
"""A line of `measuring.progress` in a job's log."""
SHOWN = ("Warning: ", "Waiting: ")
"""How those lines of a job's log begin that the terminal shows at once."""


@dataclass
class _Job:
    rule: str
    log: Path
    created: float
    """When it began, by the clock that files have their times from."""
    start: float
    read: int = 0
    """The bytes of its log that were read."""
    done: int = 0
    total: int = 0
    left: float | None = None
    """The seconds that it says are left."""


@dataclass
class _Stage:
    planned: int
    start: float
    jobs: list[_Job] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """How long each job took that has ended."""

    def counted(self) -> tuple[int, int, str]:
        """Return how much is done and planned: what its jobs count, else the jobs."""
        total = sum(job.total for job in self.jobs)
        if total:
            return sum(job.done for job in self.jobs), total, "measured"
        return len(self.seconds), self.planned, "jobs"

    def left(self) -> float | None:
        """Return the seconds left, if every running job says so. A job that waits counts as the
        mean of the others: parts of a stage are of about equal cost.
        """
        running = [job for job in self.jobs if job.left is not None]
        number = len(self.jobs) - len(self.seconds)
        if not running or len(running) < number:
            return None
        left = [job.left or 0.0 for job in running]
        whole = [clock.now() - job.start + (job.left or 0.0) for job in running] + self.seconds
        return max(left) + (self.planned - len(self.jobs)) * sum(whole) / len(whole) / number


class LogHandler(LogHandlerBase):
    """Prints stages in place of Snakemake's lines, which stay if jobs are submitted to other
    machines, in a dry run, and if options ask for more. `onerror` prints why jobs failed.
    """

    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.stream, self.start, self.closed = sys.stderr, clock.now(), Event()
        self.is_live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.submits, self.failed = False, False
        self.counts: dict[str, int] = {}
        """The jobs of each rule, once they are planned."""
        self.stages: dict[str, _Stage] = {}
        self.running: dict[int, _Job] = {}
        self.kept: list[str] = []
        """What to print at the end: of a run without jobs, or one that failed outside of jobs."""
        self.ended, self.drawn = 0, 0

    @property
    def writes_to_stream(self) -> bool:
        """Whether it takes the place of Snakemake's own handler."""
        asked = self.common_settings
        return not (asked.dryrun or asked.verbose or asked.printshellcmds or asked.debug_dag)

    def emit(self, record: logging.LogRecord) -> None:
        """Show an event. An error here must not end the thread, for which `engine.shown` waits."""
        try:
            if self.writes_to_stream:
                self._show(record)
                self._draw()
        except Exception:
            self.handleError(record)

    def _show(self, record: Any) -> None:
        event = getattr(record, "event", None)
        self.submits |= hasattr(record, "nodes")
        if self.submits:
            for text in filter(None, [*self.kept, self.format(record)]):
                self._print(text)
            self.kept = []
        elif event == "run_info":
            self.counts, self.kept = record.stats, []
            Thread(target=self._tick, daemon=True).start()
        elif event == "job_info" and self.counts and record.output:  # the last job makes nothing
            planned, now = self.counts.get(record.rule_name, 1), clock.now()
            job = _Job(record.rule_name, Path(record.log[0]), record.created, now)
            self.running[record.jobid] = job
            self.stages.setdefault(job.rule, _Stage(planned, now)).jobs.append(job)
        elif event == "job_finished":
            self.ended += 1
            if job := self.running.pop(record.job_id, None):
                self._finish(job)
        elif event == "job_error":
            self.failed = True
            if job := self.running.pop(record.jobid, None):
                self.stages[job.rule].jobs.remove(job)  # it may be tried again
        elif record.levelno >= logging.ERROR and self.counts:
            self.kept.append(self.format(record))
        elif record.levelno >= logging.WARNING:
            self.kept = []
            self._print(self.format(record))
        elif event is None and not self.counts and record.msg:
            self.kept.append(self.format(record))

    def _finish(self, job: _Job) -> None:
        self._read(job)
        stage = self.stages[job.rule]
        stage.seconds.append(clock.now() - job.start)
        if len(stage.seconds) == stage.planned:
            _, total, unit = stage.counted()
            counted = f"{total:>6} {unit}" if total > 1 else ""
            took = clock.minutes(clock.now() - stage.start)
            self._print(f"{job.rule:<15} {counted:<15} {took:>7}")

    def _tick(self) -> None:
        while not self.closed.wait(1.0):
            self.look()

    def look(self) -> None:
        """Show what has changed between events."""
        with self.lock:
            for job in self.running.values():
                self._read(job)
            self._draw()

    def _read(self, job: _Job) -> None:
        """Read what a job has added to its log, which may hold an earlier run's before."""
        if job.log.exists() and job.log.stat().st_mtime >= job.created:
            with job.log.open("rb") as log:
                log.seek(job.read)
                whole = log.read().rpartition(b"\n")[0]
            job.read += len(whole) + bool(whole)
            for line in whole.decode(errors="replace").splitlines():
                if found := PROGRESS.match(line):
                    job.done, job.total = int(found[1]), int(found[2])
                    job.left = float(found[3] or 0)
                elif line.startswith(SHOWN):
                    self._print(line)

    def _draw(self) -> None:
        """Draw the live line: of the stage whose end is known, else of the one begun first."""
        if not self.is_live or self.submits:
            return
        rules = [rule for rule in self.stages if any(j.rule == rule for j in self.running.values())]
        text = ""
        for rule in sorted(rules, key=lambda rule: self.stages[rule].left() is None)[:1]:
            done, total, unit = self.stages[rule].counted()
            left = self.stages[rule].left()
            text = f"{rule}  {done} of {total} {unit}" if total > 1 else rule
            text += "" if left is None else f", about {clock.minutes(left)} left"
            text += f" · {self.ended} of {self.counts['total']} jobs"
            text += f" · {clock.minutes(clock.now() - self.start)}"
        text = text[: os.get_terminal_size(self.stream.fileno()).columns - 1]
        self.stream.write(f"\r{text.ljust(self.drawn)}\r{text}" * bool(text or self.drawn))
        self.stream.flush()
        self.drawn = len(text)

    def _print(self, text: str) -> None:
        """Print a line in place of the live one."""
        self.stream.write(f"\r{' ' * self.drawn}\r" * bool(self.drawn) + f"{text}\n")
        self.stream.flush()
        self.drawn = 0

    def close(self) -> None:
        """Print what was kept, unless jobs failed."""
        self.closed.set()
        for text in self.kept if not self.failed else ():
            self._print(text)
        self.kept = []
        super().close()
