"""What a run shows on the terminal while it goes on."""

import io
import logging
import os
import re
import sys
import threading
from types import SimpleNamespace

import pytest
from ladder.core import clock
from ladder.measuring.progress import Progress
from ladder.pipeline import engine, stages
from planted import written

ASKED = dict.fromkeys(("dryrun", "verbose", "printshellcmds", "debug_dag"), False)
PLANNED = {"compile": 2, "measure": 2, "all": 1, "total": 5}


class Terminal(io.StringIO):
    """A screen of some columns; None for a file."""

    def __init__(self, columns):
        super().__init__()
        self.columns = columns

    def isatty(self):
        return self.columns is not None

    def fileno(self):
        return 99

    def lines(self):
        """What a person sees, line by line: each state of a line that is drawn again, once."""
        states = re.split(r"[\r\n]", self.getvalue())
        return list(dict.fromkeys(filter(None, (state.rstrip() for state in states))))


@pytest.fixture
def show(monkeypatch, virtual_clock):
    """A function that gives a screen, the handler, and what sends it an event of a run."""

    def show(columns=None, **asked):
        screen = Terminal(columns)
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setattr(os, "get_terminal_size", lambda fileno: os.terminal_size((columns, 24)))
        handler = stages.LogHandler(SimpleNamespace(**ASKED | asked), None)
        handler.closed.set()  # the test says when to look

        def send(event=None, text="", level=logging.INFO, **more):
            record = logging.LogRecord("snakemake", level, "", 0, text, None, None)
            vars(record).update({"event": event, "created": 0.0} | more)
            handler.handle(record)

        return screen, handler, send

    return show


def begin(send, jobid, rule, log="none.log"):
    send("job_info", jobid=jobid, rule_name=rule, output=["made"], log=[str(log)])


def run(show, folder, columns=None):
    """What a screen shows of a run that compiles two kernels and measures in two jobs."""
    screen, handler, send = show(columns)
    send(text="Building DAG of jobs...")
    send("run_info", stats=PLANNED)
    begin(send, 1, "compile")
    clock.sleep(5)
    begin(send, 2, "compile")
    send("job_finished", job_id=1)
    clock.sleep(5)
    send("job_finished", job_id=2)
    for job, several in ((3, 4), (4, 2)):
        log = written(folder / f"{job}.log", "")
        begin(send, job, "measure", log)
        with log.open("a") as file:
            sys.stderr = file
            progress = Progress(dict.fromkeys(range(several), 1.0))
            for key in range(several):
                clock.sleep(10)
                progress.done(key, "512 02_reordered_ikj")
                file.flush()
                handler.look()
            print("Warning: GPU-1: busy\nError: lost\nTraceback", file=file)
        send("job_finished", job_id=job)
    send("job_info", jobid=5, rule_name="all", output=[], log=["all.log"])
    send("job_finished", job_id=5)
    handler.close()
    return screen


def test_without_a_terminal_a_stage_is_a_line(show, tmp_path):
    assert run(show, tmp_path).getvalue().splitlines() == [
        "compile                 2 jobs     0:10",
        "Warning: GPU-1: busy",
        "Warning: GPU-1: busy",
        "measure             6 measured     1:00",
    ]


@pytest.mark.parametrize("columns", [40, 100])
def test_a_terminal_shows_what_is_left_in_one_line(show, tmp_path, columns):
    screen = run(show, tmp_path, columns)
    assert "\x1b" not in screen.getvalue()  # neither colors: NO_COLOR has nothing to take away
    lines = screen.lines()
    assert max(map(len, lines)) < columns
    # three more of ten seconds, then the other job, which is taken to be as long
    whole = "measure  1 of 4 measured, about 1:10 left · 2 of 5 jobs · 0:20"
    assert whole[: columns - 1] in lines
    assert any(line.startswith("measure  5 of 6 measured, about 0:10") for line in lines)
    assert lines[-1] == "measure             6 measured     1:00"
    assert screen.getvalue().endswith("1:00\n")  # of the live line nothing stays


def test_rules_of_others_have_no_log_and_were_perhaps_not_planned(show):
    screen, handler, send = show()
    send("run_info", stats=PLANNED)
    for jobid, rule in enumerate(("compile", "of_a_checkpoint")):
        send("job_info", jobid=jobid, rule_name=rule, output=["made"], log=[])
        send("job_finished", job_id=jobid)
    handler.close()
    assert [line.split() for line in screen.getvalue().splitlines()] == [
        ["of_a_checkpoint", "0:00"]
    ]


def test_a_log_of_an_earlier_run_hides_no_line_of_this_one(show, tmp_path):
    screen, handler, send = show()
    send("run_info", stats=PLANNED)
    log = written(tmp_path / "1.log", "Warning: old\n" * 3)
    begin(send, 1, "compile", log)
    handler.look()
    log.write_text("Warning: new\n")
    send("job_finished", job_id=1)
    assert screen.getvalue().splitlines()[-1] == "Warning: new"


def test_why_jobs_failed_is_left_to_the_end_and_other_errors_are_said_once(show):
    screen, handler, send = show()
    send(text="Building DAG of jobs...")
    send("run_info", stats=PLANNED)
    begin(send, 1, "compile")
    send("error", "RuleException", logging.ERROR, exception="RuleException")
    send("job_error", "Error in rule", logging.ERROR, jobid=1)
    handler.close()
    assert screen.getvalue() == ""
    for planned in ([], [PLANNED]):
        screen, handler, send = show()
        send(text="Building DAG of jobs...")
        for stats in planned:
            send("run_info", stats=stats)
        send("error", "no rule makes it", logging.ERROR, exception="MissingInputException")
        handler.close()
        handler.close()  # as `logging` does when Python ends
        assert screen.getvalue() == "no rule makes it\n"


def test_what_is_no_run_on_this_machine_is_shown_as_snakemake_says_it(show):
    screen, handler, send = show()
    send(text="Nothing to be done")
    handler.close()
    assert screen.getvalue() == "Nothing to be done\n"
    screen, handler, send = show(100)
    send(text="Building DAG of jobs...")
    send("resources_info", "Provided remote nodes: 4", nodes=4)
    send("run_info", "Job stats", stats=PLANNED)
    handler.close()
    assert screen.getvalue() == "Building DAG of jobs...\nProvided remote nodes: 4\nJob stats\n"
    for asked in ASKED:
        screen, handler, send = show(100, **{asked: True})
        send(text="Building DAG of jobs...")
        handler.close()
        assert (handler.writes_to_stream, screen.getvalue()) == (False, "")


def test_a_run_that_has_ended_does_not_wait_for_a_timer_of_the_scheduler():
    timer = threading.Timer(9, print)
    timer.start()
    engine.ended()
    assert timer.finished.is_set()
