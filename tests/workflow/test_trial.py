"""`ladder new` and `ladder try`: in this process, on a simulated device."""

import json
import os
import re
import shutil
from types import SimpleNamespace

import psutil
import pytest
import simulated
from inprocess import InProcess
from ladder.cli import trial
from ladder.compiling.compilers import CompileError
from ladder.devices.detect import detect_cpu
from ladder.devices.lock import exclusive
from ladder.measuring import session
from ladder.measuring.diagnosis import COMPUTED, UNTOUCHED
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.storage import samples
from planted import CU_RIGHT, HOME, cuda_kernel, written
from trying import INTERVAL, SINCE, Trials, edit, simulate_cpu, stay_in_process


@pytest.fixture
def trials(tmp_path, monkeypatch, capsys, gpus):
    """An empty folder of kernels, and a simulated GPU to try them on."""
    stay_in_process(monkeypatch)
    return Trials(tmp_path / "root", monkeypatch, capsys)


def test_a_correct_kernel_is_timed_and_leaves_only_what_the_next_try_needs(trials):
    lines = trials.try_("right()").splitlines()
    assert lines[0] == "cuda/mine, float32, 32 x 32 x 32 on Simulated"
    assert re.fullmatch(
        rf"mine: {INTERVAL} TFLOP/s; {INTERVAL} × cublas; \d+ % of the measured peak", lines[1]
    ), lines[1]
    assert re.fullmatch(r"correct; \d+\.\d s", lines[-1])
    assert [path.name for path in (trials.root / "results").iterdir()] == ["try"]
    (kept,) = trials.history()
    assert (kept["kernel"], kept["status"]) == ("cuda/mine", "correct")
    assert trials.files() == {"mine.cu", "mine.cubin", "mine.json"}


def test_a_try_says_what_has_changed_since_the_last_correct_one(trials):
    assert SINCE not in trials.try_("right()")
    for does, verdict, factor in (
        ("right()", "the same machine code\n", None),
        ("slow(2); right()", "slower", 0.5),
        ("slow(0.5); right()", "faster", 4),
        ("slow(0.5); right()  # other machine code", "not distinguishable", 1),
        ("right()  # a wrong one in between is not compared with", "slower", 0.5),
    ):
        if "in between" in does:
            trials.try_("right(alpha=2)", code=1)
        output = trials.try_(does)
        match = re.search(f"{SINCE}{verdict}(, ({INTERVAL}) times as fast in the same )?", output)
        assert match, output
        if factor:
            assert float(match[2].split()[0]) == pytest.approx(factor, rel=0.05)


def test_a_try_on_a_busy_gpu_is_correct_and_no_result(trials, gpus):
    trials.try_("right()")
    gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"others": [1]}))
    output = trials.try_("slow(2); right()")
    assert "\nnot a result: mine: " in output
    assert re.search(rf"{SINCE}measure again, {INTERVAL} times as fast", output)
    assert "slower" not in output
    marks = [result["marks"] for kept in trials.history() for result in kept["problems"]]
    assert marks == [[], ["disturbed"]]


def test_a_peak_that_is_beaten_is_measured_again(trials, monkeypatch):
    share = re.compile(r"(\d+ % of the measured peak|above the measured peak.*)")
    before = share.findall(trials.try_("right()"))
    path = trials.kept / "simulated" / "environment.json"
    text = path.read_text()
    path.write_text(text.replace('"fp32_tflops": 60.0', '"fp32_tflops": 0.001'))
    assert share.findall(trials.try_("right()")) == before
    assert '"fp32_tflops": 60.0' in path.read_text()
    monkeypatch.setattr("ladder.compiling.cubin.uses_tensor_cores", lambda binary: True)
    assert share.findall(trials.try_("right()")) == []  # that peak is of other units


NAN = "c[:] = p.alpha * (a @ b) + (p.beta * c if p.beta else 0)"
ODD = "right(); c *= 1 + (p.distribution == 'denormal' and p.padding == '1,0,2' and p.beta < 0)"
OF_ODD = "--distribution=denormal --padding=1,0,2 --beta=-0.5 --offset=1"
SIXTEENS = "needs: [M % 16 == 0, N % 16 == 0, K % 16 == 0]\n"
ODD_N = "needs: [N % 2 == 1]\n"
ON_ONE = "mine: on M=1 N=1 K=1 exact: "
ON_32 = "mine: on M=32 N=32 K=32 uniform, while timed: "
INDICES = r"\n  row-major, with leading dimensions, element \(i, j\) of A is A"
TABLE = [
    (0, NAN, "", "", r"NaN at alpha 0: .* write `alpha == 0 \? 0 : alpha \* sum`\n"),
    (0, NAN, "", "--alpha=0 --beta=-0.5", "\ncorrect; "),
    (0, NAN, "", "--alpha=0 --distribution=nonfinite", "\ncorrect; "),
    (0, "right()", "", "", r"^  intervals: 95 %, within-run\ncorrect; \d+\.\d s$"),
    (
        1,
        ODD,
        "",
        OF_ODD,
        r"^cuda/mine, float32, 32 x 32 x 32 beta=-0.5 padding=1,0,2 offset=1 distribution=denormal on "
        r"Simulated\nincorrect: .*while timed: sample \d+: a row of C is off by .*\n  C\[0\]\[0\] is "
        r"\S+; expected \S+ \(1024 of 1024 ",
    ),
    (0, ODD, "", OF_ODD.replace("--beta=-0.5", ""), "\ncorrect; "),
    (2, ODD, "", "--distribution=normals", "Error: .*distribution: got "),
    (
        1,
        "right(ldc=p.n)",
        "",
        "",
        r"incorrect: mine: on M=127 N=1 K=63 padding=1 exact: C\[1\]\[0\] is \S+; expected -?\d+ "
        r"\(126 of 127 elements are wrong\)\n  it looks like this: leading dimension: N is used "
        r"instead of ldc\nincorrect; \d+\.\d s$",
    ),
    (
        0,
        "right(alpha=1, beta=0)",
        "needs: [alpha == 1, beta == 0, M % 16 == 0]\n",
        "",
        r"the gauntlet ran (\d+) of its \1 problems, \d+ of them changed to what it needs\n",
    ),
    (
        0,
        "right(k=32)",
        "needs: [K == 32, M == 32]\n",
        "",
        r"the gauntlet ran (\d+) of its \d+ problems, \1 of them changed to what it needs; fewer "
        "than 20 say ",
    ),
    (1, "right(alpha=abs(p.alpha))", SIXTEENS, "", "mine: on M=16 N=16 K=272 alpha=-0.5 exact: "),
    (
        1,
        "right(); c[0, 0] += p.m == 2 and call == 2",
        "",
        "",
        r"incorrect: mine: on M=2 .*\n(  .*\n)*  it looks like this: a race, or memory that nobody set",
    ),
    (
        1,
        "right(); c[0, 0] += 9 * timed",
        "",
        "",
        rf"incorrect: {ON_32}sample \d+: a row of C is off by",
    ),
    (1, "right(alpha=3 * p.alpha)", ODD_N, "--size=33", f"incorrect: {ON_ONE}"),
    (
        1,
        "die(11) if p.m == 257 else right(alpha=3 * p.alpha)",
        ODD_N,
        "--size=33",
        f"incorrect: {ON_ONE}",
    ),
    (
        1,
        "die(11)",
        "",
        "",
        rf"launch_error: {ON_ONE}the child process was killed by signal 11{INDICES}.*\nlaunch_error; ",
    ),
    (1, "fail('an illegal address')", "", "", f"error: {ON_ONE}an illegal address{INDICES}"),
    (1, "hang()", "", "", f"timeout: {ON_ONE}no answer within 20 s\ntimeout; "),
    (1, "hang() if timed else right()", "", "", f"timeout: {ON_32}no answer within 20 s\n"),
    (
        1,
        "fail('cuStreamSynchronize failed: misaligned address') if p.padding else right()",
        "",
        "",
        r"\n  load fewer elements at a time, or add to the header `needs: \[alignment >= 16, lda % 4 "
        r"== 0, ldb % 4 == 0, ldc % 4 == 0\]`\n",
    ),
]


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(("code", "does", "header", "arguments", "expected"), TABLE)
def test_what_a_try_says(trials, code, does, header, arguments, expected):
    output = trials.try_(does, *arguments.split(), header=header, code=code)
    assert re.search(expected, output, re.MULTILINE), output


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    ("does", "guess"),
    [
        ("right(alpha=1)", "alpha is left out"),
        ("right(alpha=2 * p.alpha)", None),  # on some problems that is 1
        ("right(beta=p.beta and 1)", "beta is left out: the old C is added as it is"),
        ("right(ldb=p.n)", "leading dimension: N is used instead of ldb"),
        ("right(k=p.k - 1)", "the last 1 of K are left out"),
        (
            "right(alpha=1, lda=p.k, ldb=p.n, ldc=p.n)",
            "alpha is left out; and leading dimensions are left out: rows of A are lda apart, "
            "those of B ldb, those of C ldc",
        ),
        ("c[:] = p.beta * c + p.alpha * (a @ b)", UNTOUCHED),
        ("right(alpha=float('nan'))", COMPUTED),
    ],
)
def test_the_guess_is_what_most_wrong_problems_suggest(trials, does, guess):
    guesses = re.findall(r"it looks like this: (.*)", trials.try_(does, code=1))
    assert guesses == ([guess] if guess else [])


@pytest.mark.parametrize(
    ("wrong", "needs"),
    [
        ("p.m % 16 + p.n % 16", "[M % 16 == 0, N % 16 == 0]"),
        ("p.k % 8", "[K % 8 == 0]"),
        ("p.m == 65", None),
    ],
)
def test_sizes_that_do_not_divide_name_the_needs_to_add(trials, wrong, needs):
    does = f"right(); outside() if {wrong} else None"
    advice = re.findall(
        r"only other sizes are wrong: check bounds, or add to the header `needs: (.*)`",
        trials.try_(does, code=1),
    )
    assert advice == ([needs] if needs else [])
    if needs:
        trials.try_(does, header=f"needs: {needs}\n")


def test_after_a_configuration_that_never_ends_the_others_are_not_waited_for(trials, virtual_clock):
    start = virtual_clock.now()
    header = "parameters: {P: 1}\nsweep: {P: [1, 2, 3, 4, 5, 6]}\n"
    output = trials.try_("hang() if P > 1 else right()", header=header, code=1)
    assert 20 <= virtual_clock.now() - start < 25
    assert re.search(rf"^P=1: {INTERVAL} TFLOP/s; ", output, re.MULTILINE), output
    assert re.findall("^timeout: (P=.): on .*: no answer within 20 s", output, re.MULTILINE) == [
        "P=2"
    ]
    assert "\nnot tried after the timeout: P=3, P=4, P=5 and 1 more\ntimeout; " in output


def interrupt():
    raise KeyboardInterrupt


def test_an_interrupt_ends_a_kernel_that_never_ends_without_waiting_for_it(trials, virtual_clock):
    virtual_clock.after(5, interrupt)
    start = virtual_clock.now()
    assert trials.try_("hang()", code=130).endswith("\nInterrupted\n")
    assert virtual_clock.now() - start < 6


def test_the_compilers_message_does_not_wait_for_the_device(trials):
    trials.ladder("new", "mine", "--cpu")
    edit(trials.root / "kernels/cpu/mine.c", "const T a", "cnst T a")
    with exclusive([detect_cpu().slug]):
        output = trials.ladder("try", "kernels/cpu/mine.c", code=1)
    assert "compile_error: mine\nmine.c:15:7: error: unknown type name" in re.sub(
        "mine.c: In function.*\n", "", output
    )


def test_one_message_of_the_compiler_is_printed_once_for_all_configurations(trials, monkeypatch):
    def refuse(source):
        if "summ" not in source:
            return compiled(source)
        raise CompileError("mine.cu(9): error: identifier summ is undefined")

    compiled = simulated.compile
    monkeypatch.setattr(simulated, "compile", refuse)
    header = "parameters: {BX: 8, BY: 4}\nsweep: {BX: [8, 16], BY: [4, 8]}\n"
    output = trials.try_("summ += 1", header=header, code=1)
    assert (
        "compile_error: BX=8 BY=4, BX=8 BY=8, BX=16 BY=4 and 1 more\nmine.cu(9): error: " in output
    )
    assert output.count("is undefined") == 1
    assert "\ncompile_error; " in output


def test_without_a_gpu_a_cuda_kernel_is_compiled_and_not_run(trials, monkeypatch):
    monkeypatch.setattr(trial, "detect_gpus", list)
    output = trials.try_("right()", code=2)
    assert "compiled for sm_90: mine: 32 registers, 0 bytes of spills" in output
    assert output.splitlines()[-1].startswith(
        "Error: no usable GPU was found here: compiled, not run"
    )


def test_a_kernel_may_be_a_symbolic_link(trials, tmp_path, monkeypatch):
    """As in a campaign: a repository of one's own has the file, and the checkout may be reached
    through a link, too.
    """
    path = trials.root / trials.write("right()")
    path.rename(tmp_path / "elsewhere.cu")
    path.symlink_to(tmp_path / "elsewhere.cu")
    (tmp_path / "checkout").symlink_to(trials.root)
    monkeypatch.chdir(path.parent)
    for given in (path, tmp_path / "checkout" / "kernels" / "cuda" / "mine.cu", "mine.cu"):
        trials.ladder("try", str(given), "--size", "32")
    assert len({kept["kernel"] for kept in trials.history()}) == 1


REFUSED = [
    ("smoke.yaml", "smoke.yaml: expected a kernel, in a file .cu, .ptx, .py, .c"),
    ("cpu/mine.c --problem 3x4", "--problem 3x4: expected MxNxK such as 64x4096x4096"),
    ("cpu/mine.c --size 0", "--size 0: expected a size such as 512, from 1 to 1000000"),
    ("cpu/mine.c --problem \u00b2x3x4", "--problem \u00b2x3x4: expected MxNxK"),
    ("cpu/mine.c --problem=", "--problem : expected MxNxK"),
    ("cpu/mine.c --set BM", "--set BM: expected NAME=VALUES such as BM=64,128"),
    ("cpu/mine.c --set BM=4", "parameters.cpu/mine.BM: got [4]; it has no parameters"),
    ("cpu/03_blocked.c --set BM=\u00b2", "parameters.cpu/03_blocked.BM[0]: got "),
    ("cpu/mine.c --set BM=4 --set BM=8", "--set BM=8: expected NAME=VALUES such as BM=64,128, ea"),
    (
        "cpu/mine.c --set dlcm=cg",
        "--set dlcm: expected a parameter of cpu/mine; only CUDA C++ is compiled so",
    ),
    ("cpu/mine.c --type float16", "--type float16: expected one of the element_types in the hea"),
    ("cuda/01_naive_uncoalesced.cu --set maxrregcount=999", "options.maxrregcount: got [999]"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_tried_is_one_line_and_another_exit_code(trials, arguments, message):
    trials.ladder("new", "mine", "--cpu")
    for path in ("kernels/cpu/03_blocked.c", "kernels/cuda/01_naive_uncoalesced.cu"):
        shutil.copy(HOME / path, trials.root / path)
    (line,) = trials.ladder("try", *f"kernels/{arguments}".split(), code=2).splitlines()
    assert line.startswith("Error: ")
    assert message in line


def earlier_results(trials, size, **medians):
    """Samples of kernels on a square, by their medians in microseconds beside a reference of 2."""
    row = vars(Problem(size, size, size)) | {
        "status": "correct",
        "state": "warm",
        "reference": "cublas",
        "reference_us": [2.0] * 3,
    }
    rows = []
    for name, us in medians.items():
        kernel, configuration = (*name.split(), "-")[:2]
        what = {"kernel": kernel, "configuration": configuration, "key": name}
        rows.append(row | what | {"samples_us": [us] * 3})
    folder = trials.root / "results" / "default" / "simulated" / "samples"
    folder.mkdir(parents=True)
    samples.write(folder / "x.parquet", rows, {})


def test_who_is_not_to_blame_is_timed_beside_the_best_rung_again(trials):
    trials.write("right()", name="fast")
    earlier_results(trials, 32, fast=5.0)
    header = "parameters: {P: 1}\nsweep: {P: [1, 2]}\n"
    output = trials.try_("die(11) if timed and P == 2 else right()", header=header, code=1)
    assert re.search(rf"^P=1: .*; {INTERVAL} × fast; ", output, re.MULTILINE), output
    assert (
        "launch_error: P=2: on M=32 N=32 K=32 uniform, while timed: the child process was killed "
        "by signal 11\n" in output
    )


def test_like_is_compared_with_like(trials):
    """The rung has the parameters that were given, and the last try those configurations."""
    header = "parameters: {THREADS: 1}\nsweep: {THREADS: [1, 2]}\n"
    trials.write("slow(1 / THREADS); right()", header, name="rung")
    earlier_results(trials, 32, **{"rung THREADS=1": 4.0, "rung THREADS=2": 2.0})
    for given, threads, last in (
        ([], 2, False),
        (["--set", "THREADS=1"], 1, False),
        (["--set", "THREADS=1"], 1, True),
    ):
        output = trials.try_("slow(1 / THREADS); right()", *given, header=header)
        (ratio,) = re.findall(rf"^THREADS={threads}: .*; (\S+).* × rung", output, re.MULTILINE)
        assert float(ratio) == pytest.approx(1.0, rel=0.05)
        assert f"\n  rung: THREADS={threads}\n" in output
        assert (f"{SINCE}the same machine code" in output) == last == (SINCE in output)


def test_a_best_rung_may_be_faster_than_the_device_without_tensor_cores(trials):
    trials.write("slow(0.1); right()", name="fast")
    earlier_results(trials, 256, fast=0.5)
    assert re.search(rf"; {INTERVAL} × fast; ", trials.try_("right()", "--size", "256"))
    output = trials.try_("slow(0.1); right()", "--size", "256", code=1)  # the kernel itself may not
    assert "uniform, faster than the device: " in output


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (
            "simulated/environment.json",
            r"simulated/environment\.json: has no .*; expected what describes a device",
        ),
        (
            "cuda/mine.json",
            r"cuda/mine\.json: JSONDecodeError.*; expected what the last correct try has left",
        ),
        (
            "cuda/mine.cu",
            r"cuda/mine\.json: InputError: .*mine\.cu: no header.*; expected what the last correct "
            "try has left",
        ),
    ],
)
def test_garbage_in_what_is_kept_is_a_line_that_names_the_file(trials, kept, message):
    trials.try_("right()")
    (trials.kept / kept).write_text("garbage")
    output = trials.try_("right()", code=2)
    assert re.search(rf"^Error: .*/results/try/.*{message}", output, re.MULTILINE), output


def test_a_file_where_a_folder_is_needed_is_no_wrong_kernel(trials):
    trials.kept.parent.mkdir()
    trials.kept.touch()
    output = trials.try_("right()", code=2)
    assert re.search("^Error: .*/results/try.*: Not a directory; ", output, re.MULTILINE)


@pytest.mark.parametrize(
    ("does", "code", "verdict"), [("right()", 0, "correct; "), ("right(alpha=3)", 1, "incorrect; ")]
)
def test_a_verdict_holds_where_nothing_can_be_kept(trials, does, code, verdict):
    trials.kept.mkdir(parents=True)
    (trials.kept / "cuda").touch()
    last, warning = trials.try_(does, code=code).splitlines()[-2:]
    assert last.startswith(verdict)
    assert re.match(
        "Warning: the next try cannot compare with this one: .*/results/try/cuda: cannot be written: ",
        warning,
    )


def test_a_last_correct_try_that_fails_on_another_problem_is_not_held_against_this_one(trials):
    trials.try_("die(11) if p.n == 600 else right()")
    output = trials.try_("right()", "--problem", "8x600x8")
    assert re.search(f"{SINCE}it could not be timed again: on M=8 N=600 K=8 .* by sig", output)


@pytest.mark.parametrize(("everyone", "cores"), [(2.3, "1.3"), (1.1, None)])
def test_a_line_says_how_many_cores_other_processes_used_meanwhile(
    trials, monkeypatch, virtual_clock, everyone, cores
):
    simulate_cpu(monkeypatch)
    own = os.sched_getaffinity(0)

    def cpu_times(percpu):
        """One core of ours is busy, and the others are if this process may not use them."""
        zero = psutil.cpu_times()._replace(**dict.fromkeys(psutil.cpu_times()._fields, 0.0))
        busy = everyone * virtual_clock.now()
        times = [zero if core in own else zero._replace(user=9 * busy) for core in range(99)]
        times[min(own)] = zero._replace(user=busy, idle=3 * busy, iowait=busy)
        return times

    monkeypatch.setattr("ladder.devices.cpu.psutil", SimpleNamespace(cpu_times=cpu_times))
    monkeypatch.setattr("ladder.devices.cpu.time.process_time", virtual_clock.now)
    output = trials.ladder("try", trials.write("right()", kind="cpu"), "--size", "32")
    used = re.findall("timed while other processes used (.*)", output)
    assert used == ([f"{cores} of {len(own)} cores"] if cores else [])


def test_a_cuda_kernel_with_its_model_its_compilers_and_the_stalls(trials, gpus, monkeypatch):
    gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"others": [2]}))
    (trials.root / "kernels" / "cuda" / "mine.cu").write_text(cuda_kernel("mine", CU_RIGHT))
    try_ = ["try", "kernels/cuda/mine.cu", "--problem", "8x9x10", "--counters"]
    output = trials.ladder(*try_, "--set", "BX=8,16", "--set", "compiler=nvcc,nvrtc")
    labels = re.findall(rf"^not a result: (.*): {INTERVAL} TFLOP/s; ", output, re.MULTILINE)
    assert sorted(labels) == ["BX=16", "BX=16 compiler=nvrtc", "BX=8", "BX=8 compiler=nvrtc"]
    for words in (
        "cuda/mine, float32, 8 x 9 x 10 on Simulated\n",
        "32 registers, 0 bytes of spills, 0 bytes of static shared memory; 0 bytes of shared "
        "memory a block, 32 blocks an SM, occupancy",
        "\n  measure again while nothing else runs: timed while 2 other process(es) computed on "
        "the device\n",
        "no counters: ",
    ):
        assert words in output
    stalls = (
        f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"
        for name in ("barrier", "long_scoreboard", "wait")
    )
    table = '"ID","{}","{}","{}"\\n"","inst","inst","inst"\\n"0","0.25","1.5","0.5"'.format(*stalls)
    written(trials.root / "ncu", f"#!/bin/sh\nprintf '{table}\\n'\n", 0o755)
    monkeypatch.setenv("PATH", f"{trials.root}:{os.environ['PATH']}")
    counted = (
        "\n  stalls, cycles an issued instruction: long scoreboard 1.5, wait 0.5, barrier 0.25\n"
    )
    assert counted in trials.ladder(*try_, "--set", "BX=8")


def test_watching_answers_at_every_save_with_the_worker_that_it_has(
    trials, virtual_clock, monkeypatch
):
    workers = []

    class Counted(InProcess):
        def __init__(self, *given):
            workers.append(self)
            super().__init__(*given)

    def device_is_free():
        with exclusive(["GPU-1"], wait=False):
            workers.append("free")

    monkeypatch.setattr(session, "Child", Counted)
    path = trials.root / trials.write("right()")
    for moment, action in enumerate(
        [
            lambda: trials.write("slow(2); right()"),
            lambda: trials.write("right(alpha=2)"),
            device_is_free,
            lambda: path.write_text("no header"),
            lambda: trials.write("right()"),
            interrupt,
        ],
        1,
    ):
        virtual_clock.after(moment, action)
    output = trials.ladder("try", str(path), "--size", "32", "--watch", code=130)
    assert re.findall("^(correct|incorrect(?=;)|Error|Interrupted)", output, re.MULTILINE) == [
        *("correct", "correct", "incorrect", "Error", "correct", "Interrupted")
    ]
    assert re.findall(f"{SINCE}(.*?),", output) == ["slower", "faster"]
    first, free, second = workers  # one that a wrong kernel was in is not used again
    assert free == "free"
    assert None not in (first.process.poll(), second.process.poll())


def test_a_new_kernel_has_a_name_of_its_own(trials):
    for kind in ("--cpu",), ():
        assert "wrote " in trials.ladder("new", "mine", *kind)
    for options in ("--cpu",), (), ("--ptx",):
        output = trials.ladder("new", "mine", *options, code=1)
        assert "is there already; expected a name that is not taken" in output
    assert "expected letters, digits, _ and - only" in trials.ladder("new", "a.b", code=1)
    assert set(discover(trials.root)) == {"cpu/mine", "cuda/mine"}


@pytest.mark.parametrize(
    ("option", "example", "title"),
    [
        ("--tensor", "30_half_tensor_maps.cu", "Half precision, tensor maps"),
        ("--ptx", "64_ptx.ptx", "PTX, three loops"),
    ],
)
def test_a_new_kernel_begins_as_an_example(trials, option, example, title):
    assert "; now: ladder try" in trials.ladder("new", "mine", option)
    (path,) = (trials.root / "kernels" / "cuda").iterdir()
    text = (HOME / "kernels" / "cuda" / example).read_text()
    assert path.read_text() == text.replace(title, "Mine").replace("rival: true\n", "")
    assert discover(trials.root)["cuda/mine"].title == "Mine"


def test_a_kernel_in_ptx_is_tried_and_kept_in_its_own_language(trials):
    trials.ladder("new", "mine", "--ptx")
    path = trials.root / "kernels" / "cuda" / "mine.ptx"
    try_ = ["try", str(path), "--size", "32"]
    trials.ladder(*try_)
    edit(path, "// C <-", "// python: right()\n// C <-")
    assert SINCE in trials.ladder(*try_)
    assert trials.files() == {"mine.ptx", "mine.cubin", "mine.json"}
    output = trials.ladder(*try_, "--set", "compiler=nvrtc", code=2)
    assert "--set compiler: expected a parameter of cuda/mine; only CUDA C++ is compiled" in output
    path.unlink()
    assert SINCE not in trials.try_("right()")  # of a kernel in another language nothing is known
    assert trials.files() == {"mine.cu", "mine.cubin", "mine.json"}


def test_a_kernel_is_tried_in_each_layout_that_is_asked(trials):
    output = trials.try_("right()", "--layout", "nn,nt", header="layouts: [nn, nt]\n")
    headings = [line for line in output.splitlines() if line.startswith("cuda/mine")]
    assert headings == [
        "cuda/mine, float32, 32 x 32 x 32 on Simulated",
        "cuda/mine, float32, 32 x 32 x 32 layout=nt on Simulated",
    ]
    (kept,) = trials.history()
    found = [
        (result["problem"]["layout"], outcome["configuration"], outcome["status"])
        for result in kept["problems"]
        for outcome in result["outcomes"]
    ]
    assert found == [("nn", "-", "correct"), ("nt", "layout=nt", "correct")]
    # of a problem in another layout, the last try is not one to compare with
    again = trials.try_("right()", "--layout", "nn", header="layouts: [nn, nt]\n")
    assert SINCE not in again


@pytest.mark.parametrize(
    ("does", "answer"),
    [
        ("right()", "correct; "),
        ("right() if z == 0 else None", "this: only the first matrix of the batch is written"),
        (
            "right(); a[0, 0] += z == 2 and a.shape == (32, 32)",
            "elements of A and B were overwritten",
        ),
    ],
)
def test_a_batch_is_tried_and_what_is_wrong_with_it_told(trials, does, answer):
    output = trials.try_(
        does, "--batch", "3", header="batch: true\n", code=int("corr" not in answer)
    )
    assert answer in output
    (kept,) = trials.history()
    (result,) = kept["problems"]
    assert result["problem"]["batch"] == 3
    (outcome,) = result["outcomes"]
    assert outcome["configuration"] == "batched"
    if "matrix" in answer:
        assert outcome["wrong"]["problem"].endswith("batch=2 exact, matrix 1")


def test_a_batch_that_the_header_lacks_is_not_supported(trials):
    refused = trials.try_("right()", "--batch", "16", code=2)
    assert "batch: got more than 1; cuda/mine supports one product at a time only" in refused
    mixed = trials.try_("right()", "--batch", "16,1")
    assert "not_supported: mine: supports one product at a time only, no batch\n" in mixed


def test_a_layout_that_the_header_lacks_is_not_supported(trials):
    refused = trials.try_("right()", "--layout", "nt", code=2)
    assert "layout: got nt; cuda/mine supports nn only, as `layouts` in its header says" in refused
    mixed = trials.try_("right()", "--layout", "nt,nn")
    assert "not_supported: mine: supports the layouts nn only\n" in mixed
    assert re.search("correct; .* s$", mixed)
