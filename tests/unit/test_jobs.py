"""What a job's script says when it cannot go on."""

import json
import re
import signal
import subprocess
import sys

import pytest
import synthetic
from ladder.core.errors import InputError
from ladder.storage import dataset_layout

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
MESSAGE = "Interrupted: what was finished before is kept, run again to go on\n"


def test_what_fails_while_an_interrupted_job_ends_is_not_shown(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "log"), FAILS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == (MESSAGE, 128 + signal.SIGINT)


def test_a_job_that_is_interrupted_again_while_it_ends_has_said_so_in_one_line(tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "log"), WAITS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        message = job.stderr.readline()
        assert job.poll() is None
        job.send_signal(signal.SIGINT)
        assert job.stderr.read() == ""
        assert job.wait() == -signal.SIGINT
    assert message == MESSAGE
    assert (tmp_path / "log").read_text() == message


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
