"""What a job's script says when it cannot go on."""

import io
import json
import re
import signal
import subprocess
import sys

import pytest
import synthetic
from ladder.core.errors import INTERRUPTED as SAID
from ladder.core.errors import InputError
from ladder.pipeline import job_log, messages
from ladder.storage import dataset_layout
from waiting import wait_until

INTERRUPTED = """
import os, signal, sys, threading
from ladder.pipeline import job_log

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` ignores it
exec(sys.argv[2])
with job_log.job(sys.argv[1]):
    os.kill(os.getpid(), signal.SIGINT)
"""
WAITS = "threading.Thread(target=sys.stdin.read).start()"
"""As a job waits for its processes when Python ends."""
FAILS = "threading._register_atexit(lambda: os.close(-1))"
"""As a pool of processes does that finds its pipe closed when Python ends."""
MESSAGE = f"{SAID}\n"


def test_what_fails_while_an_interrupted_job_ends_is_not_shown(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "log"), FAILS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 128 + signal.SIGINT)
    assert (tmp_path / "log").read_text() == MESSAGE


def test_a_job_that_is_interrupted_again_while_it_ends_has_said_so_in_one_line(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "log"), WAITS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        log = tmp_path / "log"
        wait_until(lambda: log.exists() and log.read_text() == MESSAGE, "the job to say so")
        assert job.poll() is None
        job.send_signal(signal.SIGINT)
        assert job.stderr.read() == ""
        assert job.wait() == -signal.SIGINT
    assert log.read_text() == MESSAGE


def test_what_a_job_says_is_in_its_log_and_on_a_full_disk_on_the_terminal(tmp_path, monkeypatch):
    log, terminal = tmp_path / "log", io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", terminal)
    for place in (log, "/dev/full"):
        with pytest.raises(SystemExit), job_log.job(str(place)):
            raise InputError("a: got 1; expected 2")
    assert log.read_text() == terminal.getvalue() == "Error: a: got 1; expected 2\n"


def test_each_error_of_failed_jobs_is_said_once(tmp_path):
    said, silent = tmp_path / "said", tmp_path / "silent"
    said.write_text("1 of 2 measured\nError: a\nError: b\nError: a\n")
    assert messages.errors([said, said], ["RuleException"]) == ["Error: a", "Error: b"]
    assert messages.errors([silent], ["died with SIGKILL"]) == [
        "died with SIGKILL",
        f"Error: {silent}: the job ended without a message",
    ]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("KeyboardInterrupt", r"Interrupted\n"),
        ("ladder.core.errors.InputError('a: got 1; expected 2')", r"Error: a: got 1; expected 2\n"),
        ("ValueError(3)", r"Traceback[^$]*\nValueError: 3\n"),
    ],
)
def test_what_the_user_can_mend_is_one_line_outside_of_jobs_too(error, message):
    command = [sys.executable, "-c", f"import ladder.core.errors; raise {error}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.fullmatch(message, done.stderr)
    assert done.returncode == (-signal.SIGINT if message.startswith("I") else 1)


def test_what_describes_a_device_is_read_or_refused(tmp_path):
    path = tmp_path / "environment.json"
    path.write_text(json.dumps(synthetic.ENVIRONMENT))
    assert dataset_layout.read_environment(path) == synthetic.ENVIRONMENT
    for text in (
        "",
        "{",
        "3",
        "null",
        "[]",
        "[" * 9999,
        json.dumps({**synthetic.ENVIRONMENT, "peaks": 0}).replace("peaks", "p"),
    ):
        path.write_text(text)
        message = (
            r"environment\.json: has no .*; expected what describes a device\. Where it is comm"
        )
        with pytest.raises(InputError, match=message):
            dataset_layout.read_environment(path)
