"""`ladder new` and `ladder try` with real workers on the CPU, in processes that can be
interrupted.
"""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from dataclasses import replace

import psutil
import pytest
from ladder.cli import trial
from ladder.compiling.provenance import fingerprint
from ladder.core import yaml_schema
from ladder.devices.detect import detect_cpu
from ladder.measuring.diagnosis import UNTOUCHED
from trying import INTERVAL, PLAIN, SINCE, Trials, edit, ladder

TRY = ("try", "kernels/cpu/mine.c", "--size", "96")
PLACE = "const T a ="
"""Where the template's innermost loop begins."""


@pytest.fixture
def on_cpu(tmp_path, monkeypatch, capsys):
    """An empty folder of kernels, and this machine's CPU to try them on."""
    return Trials(tmp_path / "root", monkeypatch, capsys)


def output(project, *arguments):
    """Run the command, which must end well; returns what it printed."""
    done = ladder(project, *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_the_commands_on_the_cpu(project):
    """The real thing, with the template. Its first try would measure the peaks: here it has
    them.
    """
    cpu = detect_cpu().slug
    described = {
        "device": cpu,
        "kind": "cpu",
        "name": "",
        "fingerprint": fingerprint(detect_cpu()),
        "project": {},
        "attributes": {"cores": os.cpu_count()},
        "peaks": {"fp32_tflops": 9.0, "copy_tb_s": 1.0},
    }
    project.write(f"results/try/{cpu}/environment.json", json.dumps(described))
    assert "wrote " in output(project, "new", "mine", "--cpu")
    first, rates, *_, last = output(project, *TRY).splitlines()
    assert first.startswith("cpu/mine, float32, 96 x 96 x 96 on ")
    assert re.fullmatch(
        rf"(not a result: )?mine: {INTERVAL} GFLOP/s; {INTERVAL} × blas_1; \d+ % of the measured "
        rf"peak",
        rates,
    ), rates
    assert re.fullmatch(r"correct; \d+\.\d s", last)


@pytest.mark.slow
def test_kernels_that_crash_or_never_end_in_a_real_worker(on_cpu, monkeypatch):
    on_cpu.ladder("new", "mine", "--cpu")
    path = on_cpu.root / "kernels/cpu/mine.c"
    text = path.read_text()
    monkeypatch.setattr(trial, "LIMITS", replace(trial.LIMITS, timeout_seconds=300))
    assert "\ncorrect; " in on_cpu.ladder(*TRY)
    edit(path, PLACE, f"*(volatile int *)0 = 0;\n      {PLACE}")
    crash = "launch_error: mine: on M=1 N=1 K=1 exact: the child process was killed by signal 11"
    assert crash in on_cpu.ladder(*TRY, code=1)
    monkeypatch.setattr(trial, "LIMITS", replace(trial.LIMITS, timeout_seconds=2))
    path.write_text(text)
    edit(path, PLACE, f"for (volatile int n = 0;; ++n);\n      {PLACE}")
    assert re.search(r"timeout: mine: on .*: no answer within 2 s\n", on_cpu.ladder(*TRY, code=1))


FAULTS = {
    "right": ("", "", "correct", None, ""),
    "ld": ("k * ldb", "k * N", "incorrect", 7, "leading dimension: N is used instead of ldb"),
    "no_beta": (" + old", "", "incorrect", 8, "beta is left out: the old C is not added"),
    "nan": ("beta == 0 ? 0 : ", "", "incorrect", 8, UNTOUCHED),
    "index": ("j] = alpha", "j + 1] = alpha", "incorrect", 8, UNTOUCHED),
    "race": ("T sum = 0;", "static int n; T sum = n++ & 1;", "incorrect", None, "a race, or mem"),
    "outside": ("T sum = 0;", "T sum = 0; *(volatile int *)0 = 0;", "launch_error", None, ""),
    "hang": ("T sum = 0;", "T sum = 0; for (volatile int n = 0;; ++n);", "timeout", None, ""),
    "typo": ("T sum", "T summ", "compile_error", 7, ""),
    "header": ("#include", "/*---\ntitle: [\n---*/\n#include", "not_tried", None, ""),
}
"""Kernels without a header, each with one fault: what is replaced by what; its status, its line, and
how its guess begins.
"""


@pytest.mark.slow
def test_the_verdicts_on_faulty_kernels(on_cpu, monkeypatch):
    """Right or wrong, one call judges all of them."""
    monkeypatch.setattr(trial, "LIMITS", replace(trial.LIMITS, timeout_seconds=3))
    for name, (old, new, *_) in FAULTS.items():
        assert old in PLAIN
        (on_cpu.root / f"{name}.c").write_text(PLAIN.replace(old, new))
    paths = [f"{name}.c" for name in FAULTS]
    on_cpu.ladder("try", *paths, "--size", "24", "--json", "out", code=2)
    lines = (on_cpu.root / "out").read_text().splitlines()
    for (name, fault), text in zip(FAULTS.items(), lines, strict=True):
        verdict, (*_, status, number, guess) = json.loads(text), fault
        yaml_schema.check(verdict, "verdict", name)
        assert (verdict["kernel"], verdict["status"]) == (f"cpu/{name}", status)
        for result in verdict["problems"]:
            (outcome,) = result["outcomes"]
            assert (outcome["line"] or {}).get("line") == number, name
            assert outcome["guess"].startswith(guess), name
            assert (outcome["wrong"] is None) == (status != "incorrect"), name
            assert (outcome["ratio"] is None) == (status != "correct")
        assert bool(verdict["problems"]) == (name != "header")


@pytest.mark.machine
def test_a_slower_kernel_is_slower_on_the_cpu(on_cpu):
    on_cpu.ladder("new", "mine", "--cpu")
    path = on_cpu.root / "kernels/cpu/mine.c"
    on_cpu.ladder(*TRY)
    edit(path, PLACE, f"for (volatile int n = 0; n < 40; ++n);\n      {PLACE}")
    words = on_cpu.ladder(*TRY)
    match = re.search(rf"{SINCE}slower, ({INTERVAL}) times as fast in the same rounds", words)
    assert match, words
    assert float(match[1].split()[0]) < 0.8
    edit(path, "n < 40", "n < 1")
    assert f"{SINCE}faster, " in on_cpu.ladder(*TRY)


@pytest.fixture(scope="module")
def tried(make_project):
    """A project with a kernel from the template, tried once; its path."""
    output(project := make_project(), "new", "mine", "--cpu")
    output(project, *TRY)
    path = project.folder / "kernels" / "cpu" / "mine.c"
    return project, path, path.read_text()


@pytest.fixture
def mine(tried):
    """The project and the path; the file is the template in every test."""
    project, path, text = tried
    path.write_text(text)
    return project, path


@pytest.mark.slow
def test_on_a_terminal_a_line_says_what_is_being_done_and_is_gone_in_the_end(mine):
    project, _ = mine
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    command = [project.python, "-m", "ladder", *TRY]
    subprocess.run(command, cwd=project.folder, stdout=inner, stderr=inner, check=True)
    os.set_blocking(terminal, False)
    with os.fdopen(terminal, "rb") as everything:
        lines = everything.read().decode().replace("\r\n", "\n").replace("\x1b[K", "").split("\n")
    os.close(inner)
    passing = "\n".join(shown for line in lines for shown in line.split("\r")[:-1])
    assert re.search("^compiling$", passing, re.MULTILINE)
    assert re.search("^checking 1 of 1, M=7 N=13 K=3", passing, re.MULTILINE)
    assert re.search("^timing 1 beside blas_1", passing, re.MULTILINE)
    stays = "\n".join(line.split("\r")[-1] for line in lines)
    assert re.fullmatch(
        r"cpu/mine, .*\n(not a result: )?mine: .*\n(  .*\n)*correct; .* s\n *", stays
    ), stays


@pytest.mark.slow
def test_watching_with_a_real_worker(mine):
    project, path = mine
    process = subprocess.Popen(
        [project.python, "-m", "ladder", *TRY, "--watch"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )

    def answer():
        lines = []
        while not lines or not re.match(r"correct;|incorrect;|Error:", lines[-1]):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        return "".join(lines)

    try:
        assert "correct;" in answer()
        (worker,) = psutil.Process(process.pid).children()
        edit(path, PLACE, "const T a = 1 *")
        assert "the same machine code" in answer()
        assert psutil.Process(process.pid).children() == [worker]
        edit(path, PLACE, "const T a = (T)0.5 *")
        assert "incorrect;" in answer()  # not what was loaded under the same name before
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
        assert process.stdout.read() == "Interrupted\n"
        assert not worker.is_running()
    finally:
        process.kill()
