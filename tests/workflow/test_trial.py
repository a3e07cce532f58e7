"""`ladder new` and `ladder try`: what somebody who writes a kernel is told, in a copy of the project."""

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import psutil
import pytest
from ladder import records
from ladder.campaign import Problem
from ladder.environment import detect_cpu
from ladder.lock import exclusive
from planted import CU_RIGHT, cuda_kernel

CPU = detect_cpu().slug
INTERVAL = r"[\d.e+-]+ \[[\d.e+-]+, [\d.e+-]+\]"


def ladder(project, *arguments, code=0):
    """Run the command, which must end with an exit code; returns what it printed, errors last."""
    done = subprocess.run(
        [project.python, "-m", "ladder", *arguments], cwd=project.folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + without_waiting(done.stderr)


def without_waiting(told):
    """Less the lines that say that another test holds the device."""
    return "".join(line for line in told.splitlines(keepends=True) if "in use by another run" not in line)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.fixture(scope="module")
def cpu(make_project):
    """A project with a kernel from the template, tried once."""
    project = make_project()
    told = ladder(project, "new", "mine", "--cpu")
    path = project.folder / "kernels" / "cpu" / "mine.c"
    assert str(path) in told
    first = ladder(project, "try", "kernels/cpu/mine.c", "--size", "96")
    return project, path, path.read_text(), first


@pytest.fixture
def mine(cpu):
    """Its project and path; the file is as it was in every test."""
    project, path, text, _ = cpu
    path.write_text(text)
    return project, path


def test_the_template_is_right_and_timed(cpu):
    project, _, _, first = cpu
    lines = first.splitlines()
    assert lines[0].startswith("cpu/mine, float32, 96 x 96 x 96 on ")
    assert re.fullmatch(rf"mine: {INTERVAL} GFLOP/s; of blas_1 {INTERVAL}; of the measured peak \d+%", lines[1]), lines[1]
    assert re.fullmatch(r"right; \d+\.\d s", lines[-1])
    assert sorted(path.name for path in (project.folder / "results").iterdir()) == ["try"]
    told = ladder(project, "new", "mine", "--cpu", code=1)
    assert "mine.c: is there already; expected a name that is not taken" in told
    assert "expected letters, digits and _ only" in ladder(project, "new", "a-b", code=1)


def test_what_has_changed_since_the_last_right_try_is_said(mine):
    project, path = mine
    ladder(project, "try", str(path), "--size", "96")
    assert "since the last right try: the same machine code" in ladder(project, "try", str(path), "--size", "96")
    edit(path, "const T a =", "for (volatile int n = 0; n < 40; ++n);\n      const T a =")
    told = ladder(project, "try", str(path), "--size", "96")
    found = re.search(rf"since the last right try: slower, ({INTERVAL}) times as fast in the same rounds", told)
    assert found, told
    assert float(found.group(1).split()[0]) < 0.8
    edit(path, "n < 40", "n < 1")
    assert "since the last right try: faster, " in ladder(project, "try", str(path), "--size", "96")


def test_the_first_wrong_element_is_told_with_a_guess(mine):
    project, path = mine
    edit(path, "i * ldc", "i * N")
    told = ladder(project, "try", str(path), code=1)
    assert re.search(
        r"incorrect: mine: on M=127 N=1 K=63 padding=1 exact: C\[1\]\[0\] is -?\d+; expected -?\d+ \(126 of 127 elements are wrong\)",
        told,
    )
    assert "it looks like this: leading dimension: ldc is taken for N" in told
    assert re.search(r"wrong; \d+\.\d s$", told)
    last = json.loads((project.folder / "results/try/history.jsonl").read_text().splitlines()[-1])
    assert (last["kernel"], last["status"]) == ("cpu/mine", {"-": "incorrect"})


@pytest.mark.parametrize(
    ("old", "new", "guess"),
    [
        ("alpha *", "", "alpha is left out"),
        ("alpha *", "2 * alpha *", None),  # on some problems that is 1
        ("alpha *", "alpha * alpha *", None),
        ("beta * c[j]", "c[j]", "beta is left out: the old C is added as it is"),
        ("beta * c[j]", "2 * beta * c[j]", None),
        ("* lda", "* K", "leading dimension: lda is taken for K"),
        ("k < K", "k < K - 1", "the last 1 of K are left out"),
        ("beta == 0 ? 0 : ", "", "nothing is written there, or C is read although beta is 0: it was NaN before"),
        ("alpha *", "0.0f / 0.0f *", "it is computed as not a number, or from C, which was NaN before, although beta is 0"),
        ("* ldb", "* N", "leading dimension: ldb is taken for N"),
    ],
)
def test_a_guess_is_what_most_problems_suggest_or_none(mine, old, new, guess):
    project, path = mine
    edit(path, old, new)
    told = ladder(project, "try", str(path), "--size", "96", code=1)
    assert re.findall(r"it looks like this: (.*)", told) == ([guess] if guess else []), told


@pytest.mark.parametrize("when", ["launches == 2", "launches % 2 == 0"])
def test_what_is_wrong_now_and_then_is_a_race(mine, when):
    project, path = mine
    edit(
        path,
        "const T a =",
        f"static int launches; launches += i == 0 && k == 0 && M == 2;\n      const T a = (M == 2 && {when}) +",
    )
    told = ladder(project, "try", str(path), "--size", "96", code=1)
    assert "incorrect: mine: on M=2 " in told
    assert "it looks like this: a race, or memory that nobody set" in told


def test_what_is_wrong_while_timed_only_has_its_problem(mine):
    project, path = mine
    edit(path, "const T a =", "static int launches; launches += i == 0 && k == 0 && M == 96;\n      const T a = (launches > 9) +")
    told = ladder(project, "try", str(path), "--size", "96", code=1)
    assert re.search(r"incorrect: mine: on M=96 N=96 K=96 uniform, while timed: sample \d+: a row of C is off by", told), told


def test_a_wrong_kernel_that_refuses_some_problems_or_crashes_on_them_is_wrong(mine):
    project, path = mine
    edit(path, "---*/", "needs: [N % 2 == 1]\n---*/")
    edit(path, "alpha *", "3 * alpha *")
    assert "incorrect: mine: on M=1 N=1 K=1 exact: " in ladder(project, "try", str(path), "--size", "97", code=1)
    edit(path, "const T a =", "if (M == 257) *(volatile int *)0 = 0;\n      const T a =")
    assert "incorrect: mine: on M=1 N=1 K=1 exact: " in ladder(project, "try", str(path), "--size", "97", code=1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("const T a", "cnst T a", "compile_error: mine\nmine.c:13:7: error: unknown type name"),
        (
            "const T a",
            "*(volatile int *)0 = 0; const T a",
            "launch_error: mine: on M=1 N=1 K=1 exact: the child process was killed by signal 11",
        ),
        ("const T a", "if (M == 96) for (volatile int n = 0; n < 2000000000; ++n); const T a", "no answer within"),
    ],
)
def test_what_does_not_compile_crashes_or_hangs_is_wrong(mine, old, new, said, monkeypatch):
    project, path = mine
    edit(path, old, new)
    edit(project.folder / "workflow/ladder/bench.py", "timeout_seconds=20", "timeout_seconds=10")
    try:
        told = ladder(project, "try", str(path), "--size", "96", code=1)
    finally:
        edit(project.folder / "workflow/ladder/bench.py", "timeout_seconds=10", "timeout_seconds=20")
    assert said in re.sub("mine.c: In function.*\n", "", told)


def test_after_one_that_does_not_end_the_others_are_not_waited_for(mine):
    project, path = mine
    edit(path, "---*/", "parameters: {P: 1}\nsweep: {P: [1, 2, 3, 4, 5, 6]}\n---*/")
    edit(path, "const T a", "if (P > 1) for (volatile int n = 0;; ++n); const T a")
    edit(project.folder / "workflow/ladder/bench.py", "timeout_seconds=20", "timeout_seconds=3")
    try:
        told = ladder(project, "try", str(path), "--size", "96", code=1)
    finally:
        edit(project.folder / "workflow/ladder/bench.py", "timeout_seconds=3", "timeout_seconds=20")
    assert re.search(rf"^P=1: {INTERVAL} GFLOP/s; ", told, re.MULTILINE), told
    assert re.findall("^timeout: (P=.): on .*: no answer within", told, re.MULTILINE) == ["P=2"], told
    assert "\nnot tried after the timeout: P=3, P=4, P=5 and 1 more\nwrong; " in told


def test_what_the_compiler_says_does_not_wait_for_the_device(mine):
    project, path = mine
    edit(path, "const T a", "cnst T a")
    with exclusive([CPU]):
        assert "compile_error: mine\n" in ladder(project, "try", str(path), code=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["config/smoke.yaml"], "config/smoke.yaml: expected a kernel in kernels/cuda/*.cu or kernels/cpu/*.c"),
        (["kernels/cpu/mine.c", "--problem", "3x4"], "--problem 3x4: expected MxNxK such as 64x4096x4096"),
        (["kernels/cpu/mine.c", "--size", "0"], "--size 0: expected a size such as 512, from 1 to 1000000"),
        (["kernels/cpu/mine.c", "--problem", "\u00b2x3x4"], "--problem \u00b2x3x4: expected MxNxK"),
        (["kernels/cpu/mine.c", "--problem", ""], "--problem : expected MxNxK"),
        (["kernels/cpu/mine.c", "--set", "BM"], "--set BM: expected NAME=VALUES such as BM=64,128"),
        (["kernels/cpu/mine.c", "--set", "BM=4"], "parameters.cpu/mine.BM: got [4]; it has no parameters"),
        (["kernels/cpu/03_blocked.c", "--set", "BM=\u00b2"], "parameters.cpu/03_blocked.BM[0]: got "),
        (
            ["kernels/cpu/03_blocked.c", "--set", "BM=4", "--set", "BM=8"],
            "--set BM=8: expected NAME=VALUES such as BM=64,128, each",
        ),
        (["kernels/cpu/mine.c", "--set", "dlcm=cg"], "--set dlcm: expected a parameter of cpu/mine; only CUDA kernels"),
        (["kernels/cpu/mine.c", "--type", "float16"], "--type float16: expected one of the element_types in the header"),
        (["kernels/cuda/01_naive_uncoalesced.cu", "--set", "maxrregcount=999"], "options.maxrregcount: got [999]"),
    ],
)
def test_what_cannot_be_tried_is_a_line_and_another_code(mine, arguments, said):
    told = ladder(mine[0], "try", *arguments, code=2)
    assert said in told
    assert told.splitlines()[-1].startswith("Error: ")


def test_the_best_rung_of_earlier_results_is_timed_in_the_same_rounds(mine):
    project, path = mine
    rows = []
    for kernel, configuration, us in (
        ("01_naive_ijk", "-", 9.0),
        ("03_blocked", "BM=64 BN=128 BK=64", 5.0),
        ("blas_1", "-", 2.0),
        ("gone", "-", 1.0),
    ):
        row = {
            "kernel": kernel,
            "configuration": configuration,
            "status": "correct",
            "state": "warm",
            "reference": "blas_1",
            "key": kernel,
        }
        rows.append(vars(Problem(96, 96, 96)) | row | {"samples_us": [us] * 3, "reference_us": [2.0] * 3})
    folder = project.folder / "results" / "default" / CPU / "samples"
    folder.mkdir(parents=True)
    records.write(folder / "x.parquet", rows, {})
    try:
        assert re.search(rf"of 03_blocked {INTERVAL}; ", ladder(project, "try", str(path), "--size", "96"))
    finally:
        (folder / "x.parquet").unlink()


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("build/*/support-*.bin", r"support-\w+\.bin: cannot be loaded from .*; expected what was compiled"),
        ("cpu-*/environment.json", r"cpu-\S+/environment\.json: has no .*; expected what describes a device"),
        ("cpu/mine.json", r"cpu/mine\.json: JSONDecodeError.*; expected what the last right try has left"),
        ("cpu/mine.c", r"cpu/mine\.json: InputError: .*mine\.c: no header.*; expected what the last right try has left"),
    ],
)
def test_garbage_in_what_is_kept_is_a_line_that_names_the_file(mine, kept, said):
    project, path = mine
    (file,) = project.folder.glob(f"results/try/{kept}")
    (environment,) = project.folder.glob("results/try/cpu-*/environment.json")
    before, described = file.read_bytes(), environment.read_bytes()
    if kept.startswith("build"):
        environment.unlink()  # it is to be measured again
    file.write_text("garbage")
    try:
        told = ladder(project, "try", str(path), "--size", "96", code=2)
    finally:
        environment.write_bytes(described)
        file.write_bytes(before)
    assert re.search(rf"^Error: .*/results/try/.*{said}", told, re.MULTILINE), told


def test_a_file_where_a_folder_is_needed_is_no_wrong_kernel(mine):
    project, path = mine
    kept = project.folder / "results" / "try"
    kept.rename(kept.with_name("aside"))
    kept.touch()
    try:
        told = ladder(project, "try", str(path), "--size", "96", code=2)
    finally:
        kept.unlink()
        kept.with_name("aside").rename(kept)
    assert re.search(r"^Error: .*/results/try.*: Not a directory; ", told, re.MULTILINE), told


@pytest.mark.parametrize("mistake", [False, True])
def test_where_nothing_can_be_kept_right_is_right_and_wrong_is_wrong(mine, mistake):
    project, path = mine
    if mistake:
        edit(path, "alpha *", "3 * alpha *")
    kept = project.folder / "results" / "try" / "cpu"
    kept.rename(kept.with_name("aside"))
    kept.touch()
    try:
        told = ladder(project, "try", str(path), "--size", "96", code=int(mistake))
    finally:
        kept.unlink()
        kept.with_name("aside").rename(kept)
    verdict, warning = told.splitlines()[-2:]
    assert verdict.startswith("wrong; " if mistake else "right; ")
    assert re.match(r"Warning: nothing is kept of it for the next try: .*/results/try/cpu: cannot be written: ", warning), warning


def test_a_last_right_try_that_fails_on_another_problem_is_not_laid_to_this_one(mine):
    project, path = mine
    edit(path, "const T a =", "if (N == 600) *(volatile int *)0 = 0;\n      const T a =")
    ladder(project, "try", str(path), "--size", "96")
    edit(path, "if (N == 600) *(volatile int *)0 = 0;\n", "")
    told = ladder(project, "try", str(path), "--size", "600")
    assert "since the last right try: it could not be timed again: on M=600 " in told
    assert "killed by signal 11" in told


def test_what_other_processes_do_beside_it_is_told(mine):
    project, path = mine
    cores = os.cpu_count()
    busy = [subprocess.Popen([project.python, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        told = ladder(project, "try", str(path), "--size", "96")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    (used,) = re.findall(rf"^  timed while other processes used (\S+) of {cores} cores$", told, re.MULTILINE)
    assert 0.25 <= float(used) <= cores + 0.1


def test_on_a_terminal_a_line_says_what_is_being_done_and_is_gone_in_the_end(mine):
    project, path = mine
    terminal, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    command = [project.python, "-m", "ladder", "try", str(path), "--size", "96"]
    subprocess.run(command, cwd=project.folder, stdout=theirs, stderr=theirs, check=True, timeout=600)
    os.set_blocking(terminal, False)
    with os.fdopen(terminal, "rb") as everything:
        lines = without_waiting(everything.read().decode().replace("\r\n", "\n")).split("\n")
    os.close(theirs)
    passing = [shown for line in lines for shown in line.split("\r")[:-1]]
    assert "compiling" in passing
    assert any(shown.startswith("checking 1 of 1, M=7 N=13 K=3") for shown in passing)
    assert any(shown.startswith("timing 1 beside blas_1") for shown in passing)
    stays = [line.split("\r")[-1] for line in lines]
    assert re.fullmatch(r"cpu/mine, .*\nmine: .*\n(  .*\n)*right; .* s\n *", "\n".join(stays)), stays


def test_a_kernel_that_never_ends_is_interrupted_at_once(mine):
    project, path = mine
    path.write_text(path.read_text().replace("const T a =", "for (;;) { volatile int wait = 0; (void)wait; }\n  const T a =", 1))
    process = subprocess.Popen(
        [project.python, "-m", "ladder", "try", str(path), "--size", "96"], cwd=project.folder, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout
    assert "float32" in process.stdout.readline()  # it is compiled, and tried now
    began = time.monotonic()
    used = 0.0
    while used < 3:  # no import takes so long
        assert process.poll() is None and time.monotonic() - began < 300
        time.sleep(0.1)
        with contextlib.suppress(psutil.NoSuchProcess):
            used = sum(child.cpu_times().user for child in psutil.Process(process.pid).children(recursive=True))
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert time.monotonic() - start < 8  # an orderly end of the worker takes 10
    assert without_waiting(process.stdout.read()) == "Interrupted\n"


def test_watching_answers_at_every_save_with_a_warm_worker(mine):
    project, path = mine
    command = [project.python, "-m", "ladder", "try", str(path), "--size", "96", "--watch"]
    process = subprocess.Popen(
        command, cwd=project.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )  # fmt: skip
    assert process.stdout

    def answer():
        lines = []
        while not lines or not re.match(r"right;|wrong;|Error:", lines[-1]):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        return "".join(lines)

    try:
        assert "right;" in answer()
        (worker,) = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
        edit(path, "const T a =", "const T a = 1 *")
        assert "the same machine code" in answer()
        edit(path, "const T a =", "const T a = (T)0.5 *")
        assert "wrong;" in answer()  # not what was loaded under the same name before
        path.write_text("no header")
        assert "Error: " in answer()
        ladder(project, "try", "kernels/cpu/01_naive_ijk.c", "--size", "32")  # the device is free in between
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
        assert process.stdout.read() == "Interrupted\n"
        with pytest.raises(ProcessLookupError):
            os.kill(int(worker), 0)
            time.sleep(1)
            os.kill(int(worker), 0)
    finally:
        process.kill()


def test_a_cuda_kernel_with_its_model_and_ways_of_compiling(project, monkeypatch):
    project.write("kernels/cuda/80_mine.cu", cuda_kernel("mine", CU_RIGHT))
    for name, value in project.simulate(name="Fake", uuids=["GPU-1"], driver="1.0", compiler="1.0", others=[2]).items():
        monkeypatch.setenv(name, value)
    told = ladder(
        project,
        "try",
        "kernels/cuda/80_mine.cu",
        "--problem",
        "8x9x10",
        "--set",
        "BX=8,16",
        "--set",
        "compiler=nvcc,nvrtc",
        "--counters",
    )
    assert told.startswith("cuda/80_mine, float32, 8 x 9 x 10 on Fake\n")
    for label in ("BX=8", "BX=16", "BX=8 compiler=nvrtc", "BX=16 compiler=nvrtc"):
        assert re.search(rf"^{label}: {INTERVAL} TFLOP/s; of cublas {INTERVAL}", told, re.MULTILINE), told
    assert (
        "32 registers, 0 bytes of spills, 0 bytes of static shared memory; 0 bytes of shared memory a block, 32 blocks an SM, occupancy"
        in told
    )
    assert "no counters: " in told
    metric = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    metrics = [metric.format(name) for name in ("barrier", "long_scoreboard", "wait")]
    table = f'"ID","{metrics[0]}","{metrics[1]}","{metrics[2]}"\\n"","inst","inst","inst"\\n"0","0.25","1.5","0.5"'
    project.write("bin/ncu", f"#!/bin/sh\nprintf '{table}\\n'\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.folder / 'bin'}:{os.environ['PATH']}")
    counted = ladder(project, "try", "kernels/cuda/80_mine.cu", "--problem", "8x9x10", "--set", "BX=8", "--counters")
    assert "\n  stalls, cycles an issued instruction: long scoreboard 1.5, wait 0.5, barrier 0.25\n" in counted
    assert "\n  timed while 2 other process(es) computed on the device\n" in told
    project.write("kernels/cuda/80_mine.cu", cuda_kernel("mine", "// python: right(); c[0, 0] += 1\n" + CU_RIGHT))
    told = ladder(project, "try", "kernels/cuda/80_mine.cu", "--problem", "8x9x10", "--set", "BX=8", code=1)
    assert re.search(r"incorrect: BX=8: on M=1 N=1 K=1 exact: C\[0\]\[0\] is -?\d+; expected -?\d+ \(1 of 1", told), told


def test_without_a_gpu_a_cuda_kernel_is_compiled(project, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    text = (project.folder / "workflow/ladder/environment.py").read_text()
    project.write("workflow/ladder/environment.py", text + "\n\ndef detect_gpus():\n    return []\n")
    ladder(project, "new", "mine")
    told = ladder(project, "try", "kernels/cuda/mine.cu", "--set", "BX=16", "--set", "BY=8", code=2)
    assert re.search(r"compiled for sm_90: BX=16 BY=8: \d+ registers, 0 bytes of spills", told)
    assert told.splitlines()[-1].startswith("Error: no GPU was found here: compiled, not run")
    edit(project.folder / "kernels/cuda/mine.cu", "sum += ", "summ += ")
    told = ladder(project, "try", "kernels/cuda/mine.cu", "--set", "BX=8,16", "--set", "BY=4,8", code=1)  # wrong, on any machine
    assert told.count('identifier "summ" is undefined') == 1  # not once a configuration
    assert "compile_error: BX=8 BY=4, BX=8 BY=8, BX=16 BY=4 and 1 more\n" in told
