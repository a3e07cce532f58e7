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
    log: Path
    read: int = 0
    """The lines of its log that were read."""
    done: int = 0
    total: int = 0
    left: int | None = None
    """The seconds that are left, as far as it says so."""


@dataclass
class _Stage:
    name: str
    planned: int
    start: float
    jobs: list[_Job] = field(default_factory=list)
    """Those that have begun."""
    ended: int = 0

    def counted(self) -> str:
        """Return how much is done, as its jobs count, else of several jobs."""
        if total := sum(job.total for job in self.jobs):
            return f"{sum(job.done for job in self.jobs)} of {total} measured"
        return f"{self.ended} of {self.planned} jobs" if self.planned > 1 else ""

    def left(self) -> str:
        """Return the time left, if a job says it. Jobs that have not begun take as long as the
        others, because the parts of a stage are of about equal cost.
        """
        known = [job.left for job in self.jobs if job.left is not None]
        if not known:
            return ""
        spent = clock.now() - self.start + max(known)
        seconds = max(known) + (self.planned - len(self.jobs)) * spent / len(self.jobs)
        return f", about {clock.minutes(seconds)} left"


class LogHandler(LogHandlerBase):
    """Prints stages in place of Snakemake's lines, which stay if jobs are submitted to other
    machines, in a dry run, and if options ask for more. `onerror` prints why jobs failed.
    """

    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        self.stream, self.start, self.closed = sys.stderr, clock.now(), Event()
        self.is_live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.submits, self.failed, self.ended, self.drawn = False, False, 0, 0
        self.counts: dict[str, int] = {}
        """The jobs of each rule, once they are planned."""
        self.stages: dict[str, _Stage] = {}
        self.running: dict[int, tuple[_Stage, _Job]] = {}
        self.kept: list[str] = []
        """What to print at the end: of a run without jobs, or an error outside of jobs."""

    @property
    def writes_to_stream(self) -> bool:
        """Whether it takes the place of Snakemake's own handler."""
        asked = self.common_settings
        return not (asked.dryrun or asked.verbose or asked.printshellcmds or asked.debug_dag)

    def emit(self, record: logging.LogRecord) -> None:
        """Show an event. An error here must not end the thread, for which `engine.ended` waits."""
        try:
            if self.writes_to_stream:
                self._show(record)
                self._draw()
        except Exception:
            self.handleError(record)

    def _show(self, record: Any) -> None:
        event = getattr(record, "event", None)
        if hasattr(record, "nodes"):
            self.submits, self.is_live = True, False
            self._print_kept()
        if self.submits or record.levelno == logging.WARNING:
            if text := self.format(record):
                self._print(text)
        elif event == "run_info":
            self.counts, self.kept = record.stats, []
            Thread(target=self._tick, daemon=True).start()
        elif event == "job_info" and self.counts and record.output:  # the last job makes nothing
            name = record.rule_name
            stage = self.stages.setdefault(
                name, _Stage(name, self.counts.get(name, 1), clock.now())
            )
            # the rules of a workflow around this one may have no log
            stage.jobs.append(_Job(Path(next(iter(record.log), os.devnull))))
            self.running[record.jobid] = stage, stage.jobs[-1]
        elif event == "job_finished":
            self.ended += 1
            if record.job_id in self.running:
                self._end(*self.running.pop(record.job_id))
        elif event == "job_error":
            self.failed = True
            if record.jobid in self.running:
                stage, job = self.running.pop(record.jobid)
                stage.jobs.remove(job)  # it may be tried again
        elif record.levelno >= logging.ERROR:
            self.kept = [self.format(record)]
        elif event is None and not self.counts and record.msg:
            self.kept.append(self.format(record))

    def _end(self, stage: _Stage, job: _Job) -> None:
        self._read(job)
        job.left = None
        stage.ended += 1
        if stage.ended == stage.planned:
            counted = stage.counted().rpartition(" of ")[2]
            took = clock.minutes(clock.now() - stage.start)
            self._print(f"{stage.name:<15}{counted:>15} {took:>8}")

    def _tick(self) -> None:
        while not self.closed.wait(1.0):
            self.look()

    def look(self) -> None:
        """Show what has changed between events."""
        self.acquire()
        try:
            for _, job in self.running.values():
                self._read(job)
            self._draw()
        finally:
            self.release()

    def _read(self, job: _Job) -> None:
        try:
            lines = job.log.read_text(errors="replace").split("\n")[:-1]
        except OSError:  # it is not there yet
            return
        if len(lines) < job.read:  # those of an earlier run were read
            job.read = 0
        for line in lines[job.read :]:
            if found := PROGRESS.match(line):
                job.done, job.total, job.left = (int(number or 0) for number in found.groups())
            elif line.startswith(SHOWN):
                self._print(line)
        job.read = len(lines)

    def _draw(self) -> None:
        """Draw the live line: of the stage whose end is known, else of the one begun first."""
        if not self.is_live:
            return
        text = ""
        if self.running:
            stage = max((stage for stage, _ in self.running.values()), key=lambda s: s.left() > "")
            text = f"{stage.name}  {stage.counted()}{stage.left()}".rstrip()
            text += f" · {self.ended} of {self.counts['total']} jobs"
            text += f" · {clock.minutes(clock.now() - self.start)}"
        columns = os.get_terminal_size(self.stream.fileno()).columns or 80  # 0 is not known
        self._print(text[: columns - 1], end="")

    def _print(self, text: str, end: str = "\n") -> None:
        """Print in place of the live line."""
        self.stream.write(f"\r{' ' * self.drawn}\r" * bool(self.drawn) + text + end)
        self.stream.flush()
        self.drawn = 0 if end else len(text)

    def close(self) -> None:
        """Print what was kept, unless jobs failed."""
        self.closed.set()
        if not self.failed:
            self._print_kept()
        super().close()

    def _print_kept(self) -> None:
        for text in self.kept:
            self._print(text)
        self.kept = []
