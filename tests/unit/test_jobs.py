"""What a job's script says when it cannot go on."""

import json
import re
import signal
import subprocess
import sys

import pytest
import synthetic
from ladder.core.errors import InputError
from ladder.pipeline import job_log
from ladder.storage import dataset_layout


def test_an_interrupted_job_ends_in_one_line(tmp_path, capfd):
    with pytest.raises(SystemExit) as ended, job_log.job(str(tmp_path / "log")):
        raise KeyboardInterrupt
    assert ended.value.code == 130
    message = capfd.readouterr().err
    assert message == "Interrupted: what was finished before is kept, run again to go on\n"
    assert (tmp_path / "log").read_text() == message


@pytest.mark.parametrize(("error", "message"), [
    ("KeyboardInterrupt", r"Interrupted\n"),
    ("ladder.core.errors.InputError('a: got 1; expected 2')", r"Error: a: got 1; expected 2\n"),
    ("ValueError(3)", r"Traceback[^$]*\nValueError: 3\n"),
])  # fmt: skip
def test_what_the_user_can_mend_is_one_line_outside_of_jobs_too(error, message):
    command = [sys.executable, "-c", f"import ladder.core.errors; raise {error}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.fullmatch(message, done.stderr)
    assert done.returncode == (-signal.SIGINT if message.startswith("I") else 1)


def test_what_describes_a_device_is_read_or_refused(tmp_path):
    path = tmp_path / "environment.json"
    path.write_text(json.dumps(synthetic.ENVIRONMENT))
    assert dataset_layout.read_environment(path) == synthetic.ENVIRONMENT
    for text in ("", "{", "3", "null", "[]", "[" * 9999, json.dumps({**synthetic.ENVIRONMENT, "peaks": 0}).replace("peaks", "p")):
        path.write_text(text)
        message = r"environment\.json: has no .*; expected what describes a device\. Where it is comm"
        with pytest.raises(InputError, match=message):
            dataset_layout.read_environment(path)
