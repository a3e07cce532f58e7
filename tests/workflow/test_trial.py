"""`ladder new` and `ladder try`: in this process, on a simulated device."""

import json
import os
import re
import shutil

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
from ladder.measuring.protocol import Time
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.storage import samples
from planted import CU_RIGHT, ROOT, cuda_kernel, written
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
        rf"mine: {INTERVAL} TFLOP/s; of cublas {INTERVAL}; of the measured peak \d+%", lines[1]
    ), lines[1]
    assert re.fullmatch(r"correct; \d+\.\d s", lines[-1])
    assert [path.name for path in (trials.root / "results").iterdir()] == ["try"]
    (kept,) = trials.history()
    assert (kept["kernel"], kept["problem"], kept["status"]) == (
        "cuda/mine",
        "32",
        {"-": "correct"},
    )
    assert {path.name for path in (trials.kept / "cuda").iterdir()} == {
        "mine.cu",
        "mine.cubin",
        "mine.json",
    }


def test_a_try_says_what_has_changed_since_the_last_correct_one(trials):
    assert SINCE not in trials.try_("right()")
    assert f"{SINCE}the same machine code\n" in trials.try_("right()")
    for does, verdict, factor in (
        ("slow(2); right()", "slower", 0.5),
        ("slow(0.5); right()", "faster", 4),
    ):
        output = trials.try_(does)
        match = re.search(
            rf"{SINCE}{verdict}, ({INTERVAL}) times as fast in the same rounds", output
        )
        assert match, output
        assert float(match[1].split()[0]) == pytest.approx(factor, rel=0.05)
    assert f"{SINCE}not distinguishable, " in trials.try_(
        "slow(0.5); right()  # other machine code"
    )
    trials.try_("right(alpha=2)", code=1)
    assert f"{SINCE}slower, " in trials.try_(
        "right()  # a wrong one in between is not compared with"
    )


def test_a_try_on_a_busy_gpu_is_correct_and_no_result(trials, gpus):
    trials.try_("right()")
    gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"others": [1]}))
    output = trials.try_("slow(2); right()")
    assert "\nnot a result: mine: " in output
    assert re.search(rf"{SINCE}measure again, {INTERVAL} times as fast", output)
    assert "slower" not in output
    assert [kept["marks"] for kept in trials.history()] == [[], ["disturbed"]]


def test_a_kernel_that_multiplies_nan_by_an_alpha_of_0_is_correct_and_gets_the_line_to_write(
    trials,
):
    plain = "c[:] = p.alpha * (a @ b) + (p.beta * c if p.beta else 0)"
    output = trials.try_(plain)
    assert re.search(r"NaN at alpha 0: .* write `alpha == 0 \? 0 : alpha \* sum`\n", output), output
    assert "\ncorrect; " in trials.try_(plain, "--alpha=0", "--beta=-0.5")
    assert "\ncorrect; " in trials.try_(plain, "--alpha=0", "--distribution=nonfinite")
    assert "NaN at alpha 0" not in trials.try_("right()")


def test_a_kernel_is_tried_on_the_problem_of_a_campaign(trials):
    does = (
        "right(); c *= 1 + (p.distribution == 'denormal' and p.padding == '1,0,2' and p.beta < 0)"
    )
    given = ["--distribution=denormal", "--padding=1,0,2", "--beta=-0.5", "--offset=1"]
    output = trials.try_(does, *given, code=1)
    assert output.startswith(
        "cuda/mine, float32, 32 x 32 x 32 beta=-0.5 padding=1,0,2 offset=1 distribution=denormal "
        "on Simulated\n"
    )
    assert re.search(
        r"while timed: sample \d+: a row of C is off by .*\n  C\[0\]\[0\] is \S+; expected \S+ "
        r"\(1024 of 1024 ",
        output,
    ), output
    assert "\ncorrect; " in trials.try_(does, *given[:-2])
    assert "distribution: got " in trials.try_(does, "--distribution=normals", code=2)


def test_a_peak_that_is_beaten_is_measured_again(trials, monkeypatch):
    share = re.compile(r"(of the measured peak \d+%|above the measured peak.*)")
    before = share.findall(trials.try_("right()"))
    path = trials.kept / "simulated" / "environment.json"
    text = path.read_text()
    path.write_text(text.replace('"fp32_tflops": 60.0', '"fp32_tflops": 0.001'))
    assert share.findall(trials.try_("right()")) == before
    assert '"fp32_tflops": 60.0' in path.read_text()
    monkeypatch.setattr("ladder.compiling.cubin.uses_tensor_cores", lambda binary: True)
    assert share.findall(trials.try_("right()")) == []  # that peak is of other units


def test_the_first_wrong_element_is_named_with_a_guess(trials):
    output = trials.try_("right(ldc=p.n)", code=1)
    assert re.search(
        r"incorrect: mine: on M=127 N=1 K=63 padding=1 exact: C\[1\]\[0\] is \S+; expected -?\d+ "
        r"\(126 of 127 elements are wrong\)",
        output,
    ), output
    assert "it looks like this: leading dimension: N is used instead of ldc\n" in output
    assert re.search(r"incorrect; \d+\.\d s$", output)
    last = trials.history()[-1]
    assert (last["kernel"], last["status"]) == ("cuda/mine", {"-": "incorrect"})


def test_what_the_gauntlet_asks_of_a_kernel_that_needs_something_is_said(trials):
    assert "the gauntlet asked" not in trials.try_("right()")
    output = trials.try_(
        "right(alpha=1, beta=0)", header="needs: [alpha == 1, beta == 0, M % 16 == 0]\n"
    )
    assert re.search(
        r"the gauntlet asked (\d+) of its \1 problems, \d+ of them changed to what it needs\n",
        output,
    ), output
    output = trials.try_("right(k=32)", header="needs: [K == 32, M == 32]\n")
    assert re.search(
        r"the gauntlet asked (\d+) of its \d+ problems, \1 of them changed to what it needs; fewer "
        r"than 20 say ",
        output,
    )
    output = trials.try_(
        "right(alpha=abs(p.alpha))",
        header="needs: [M % 16 == 0, N % 16 == 0, K % 16 == 0]\n",
        code=1,
    )
    assert "incorrect: mine: on M=16 N=16 K=272 alpha=-0.5 exact: " in output


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize(
    ("does", "guess"),
    [
        ("right(alpha=1)", "alpha is left out"),
        ("right(alpha=2 * p.alpha)", None),  # on some problems that is 1
        ("right(alpha=p.alpha * p.alpha)", None),
        ("right(beta=p.beta and 1)", "beta is left out: the old C is added as it is"),
        ("right(beta=2 * p.beta)", None),
        ("right(lda=p.k)", "leading dimension: K is used instead of lda"),
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
    assert re.findall(r"it looks like this: (.*)", trials.try_(does, code=1)) == (
        [guess] if guess else []
    )


def test_sizes_that_do_not_divide_and_misaligned_addresses_name_the_needs_to_add(trials):
    for does, needs in (
        ("right(); outside() if p.m % 16 + p.n % 16 else None", "[M % 16 == 0, N % 16 == 0]"),
        ("right(); outside() if p.k % 8 else None", "[K % 8 == 0]"),
        ("right(); outside() if p.m == 65 else None", None),
    ):
        output = trials.try_(does, code=1)
        advice = re.findall(
            r"only other sizes are wrong: check bounds, or add to the header `needs: (.*)`", output
        )
        assert advice == ([needs] if needs else []), output
        assert needs is None or "\ncorrect; " in trials.try_(does, header=f"needs: {needs}\n")
    output = trials.try_(
        "fail('cuStreamSynchronize failed: misaligned address') if p.padding or p.offset else "
        "right()",
        code=1,
    )
    (needs,) = re.findall(r"load fewer elements at a time, .* `needs: (.*)`", output)
    assert needs == "[alignment >= 16, lda % 4 == 0, ldb % 4 == 0, ldc % 4 == 0]"


def test_what_is_wrong_in_some_launches_only_is_a_race(trials, tmp_path):
    once = str(tmp_path / "once")
    for when in (
        "call == 2",
        f"call == 2 and not os.path.exists({once!r}) and not open({once!r}, 'w').close()",
    ):
        output = trials.try_(f"right(); c[0, 0] += p.m == 2 and {when}", code=1)
        assert "incorrect: mine: on M=2 " in output
        assert "it looks like this: a race, or memory that nobody set" in output, when


def test_what_is_wrong_only_while_it_is_timed_has_its_problem(trials):
    output = trials.try_("right(); c[0, 0] += 9 * timed", code=1)
    assert re.search(
        r"incorrect: mine: on M=32 N=32 K=32 uniform, while timed: sample \d+: a row of C is off by",
        output,
    ), output


def test_a_wrong_kernel_that_refuses_some_problems_or_crashes_on_them_is_wrong(trials):
    for does in ("right(alpha=3 * p.alpha)", "die(11) if p.m == 257 else right(alpha=3 * p.alpha)"):
        output = trials.try_(does, "--size", "33", header="needs: [N % 2 == 1]\n", code=1)
        assert "incorrect: mine: on M=1 N=1 K=1 exact: " in output, does


def test_a_kernel_that_crashes_or_never_ends_is_wrong(trials):
    indices = "  row-major, with leading dimensions, element (i, j) of A is A[i * lda + j], "
    for does, reason in {
        "die(11)": "launch_error: mine: on M=1 N=1 K=1 exact: the child process was killed by "
        f"signal 11\n{indices}",
        "fail('an illegal address')": "launch_error: mine: on M=1 N=1 K=1 exact: an illegal "
        f"address\n{indices}",
        "hang()": "timeout: mine: on M=1 N=1 K=1 exact: no answer within 20 s\n",
        "hang() if timed else right()": "timeout: mine: on M=32 N=32 K=32 uniform, while timed: no "
        "answer within 20 s\n",
    }.items():
        output = trials.try_(does, code=1)
        assert reason in output
        assert re.search(rf"\n{reason.partition(':')[0]}; \S+ s$", output), output
        assert "\ncorrect; " in trials.try_("right()")


def test_after_a_configuration_that_never_ends_the_others_are_not_waited_for(trials, virtual_clock):
    start = virtual_clock.now()
    header = "parameters: {P: 1}\nsweep: {P: [1, 2, 3, 4, 5, 6]}\n"
    output = trials.try_("hang() if P > 1 else right()", header=header, code=1)
    assert 20 <= virtual_clock.now() - start < 25
    assert re.search(rf"^P=1: {INTERVAL} TFLOP/s; ", output, re.MULTILINE), output
    assert re.findall("^timeout: (P=.): on .*: no answer within 20 s", output, re.MULTILINE) == [
        "P=2"
    ], output
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
    assert re.search(r"\ncompile_error; \S+ s$", output), output


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
    for given in (path, tmp_path / "checkout" / "kernels" / "cuda" / "mine.cu"):
        assert "\ncorrect; " in trials.ladder("try", str(given), "--size", "32")
    monkeypatch.chdir(path.parent)
    assert "\ncorrect; " in trials.ladder("try", "mine.cu", "--size", "32")
    trials.ladder("try", str(tmp_path / "elsewhere.cu"), code=2)


def test_what_cannot_be_tried_is_one_line_and_another_exit_code(trials):
    trials.ladder("new", "mine", "--cpu")
    for path in ("cpu/03_blocked.c", "cuda/01_naive_uncoalesced.cu"):
        shutil.copy(ROOT / "kernels" / path, trials.root / "kernels" / path)
    mine, blocked = "kernels/cpu/mine.c", "kernels/cpu/03_blocked.c"
    for arguments, message in (
        (
            ["config/smoke.yaml"],
            "config/smoke.yaml: expected a kernel in kernels/cuda/*.cu or kernels/cuda/*.ptx or "
            "kernels/cuda/*.py or kernels/cpu/*.c of",
        ),
        ([mine, "--problem", "3x4"], "--problem 3x4: expected MxNxK such as 64x4096x4096"),
        ([mine, "--size", "0"], "--size 0: expected a size such as 512, from 1 to 1000000"),
        ([mine, "--problem", "\u00b2x3x4"], "--problem \u00b2x3x4: expected MxNxK"),
        ([mine, "--problem", ""], "--problem : expected MxNxK"),
        ([mine, "--set", "BM"], "--set BM: expected NAME=VALUES such as BM=64,128"),
        ([mine, "--set", "BM=4"], "parameters.cpu/mine.BM: got [4]; it has no parameters"),
        ([blocked, "--set", "BM=\u00b2"], "parameters.cpu/03_blocked.BM[0]: got "),
        (
            [blocked, "--set", "BM=4", "--set", "BM=8"],
            "--set BM=8: expected NAME=VALUES such as BM=64,128, each",
        ),
        (
            [mine, "--set", "dlcm=cg"],
            "--set dlcm: expected a parameter of cpu/mine; only CUDA C++ is compiled so",
        ),
        (
            [mine, "--type", "float16"],
            "--type float16: expected one of the element_types in the header",
        ),
        (
            ["kernels/cuda/01_naive_uncoalesced.cu", "--set", "maxrregcount=999"],
            "options.maxrregcount: got [999]",
        ),
    ):
        output = trials.ladder("try", *arguments, code=2)
        assert message in output
        assert output.splitlines()[-1].startswith("Error: ")


def earlier_results(trials, size, **medians):
    """Samples of kernels on a square, by their medians in microseconds beside a reference of 2."""
    row = vars(Problem(size, size, size)) | {
        "configuration": "-",
        "status": "correct",
        "state": "warm",
        "reference": "cublas",
    }
    row |= {"reference_us": [2.0] * 3}
    names = {name: (*name.split(), "-")[:2] for name in medians}
    rows = [
        row
        | {
            "kernel": names[name][0],
            "configuration": names[name][1],
            "key": name,
            "samples_us": [us] * 3,
        }
        for name, us in medians.items()
    ]
    folder = trials.root / "results" / "default" / "simulated" / "samples"
    folder.mkdir(parents=True)
    samples.write(folder / "x.parquet", rows, {})


def test_the_best_rung_of_earlier_results_is_timed_in_the_same_rounds(trials):
    for name in ("slow", "fast"):
        trials.write("right()", name=name)
    earlier_results(trials, 32, slow=9.0, fast=5.0, gone=1.0)
    match = re.search(rf"; of fast ({INTERVAL}); ", trials.try_("slow(2); right()"))
    assert match and float(match[1].split()[0]) == pytest.approx(0.5, rel=0.05)


def test_who_is_not_to_blame_is_timed_beside_the_best_rung_again(trials, monkeypatch):
    timings, ask = [], InProcess.ask

    def count(child, request, timeout):
        timings.extend(len(timing.indices) for timing in [request] if isinstance(timing, Time))
        return ask(child, request, timeout)

    monkeypatch.setattr(InProcess, "ask", count)
    trials.write("right()", name="fast")
    earlier_results(trials, 32, fast=5.0)
    header = "parameters: {P: 1}\nsweep: {P: [1, 2]}\n"
    output = trials.try_("die(11) if timed and P == 2 else right()", header=header, code=1)
    assert re.search(rf"^P=1: .*; of fast {INTERVAL}; ", output, re.MULTILINE), output
    assert (
        "launch_error: P=2: on M=32 N=32 K=32 uniform, while timed: the child process was killed "
        "by signal 11\n" in output
    )
    assert timings == [3, 1, 1, 1, 2]


def test_like_is_compared_with_like(trials):
    """The rung has the parameters that were given, and the last try those configurations."""
    header = "parameters: {THREADS: 1}\nsweep: {THREADS: [1, 2]}\n"
    trials.write("slow(1 / THREADS); right()", header, name="rung")
    earlier_results(trials, 32, **{"rung THREADS=1": 4.0, "rung THREADS=2": 2.0})
    for given, threads in (([], 2), (["--set", "THREADS=1"], 1)):
        output = trials.try_("slow(1 / THREADS); right()", *given, header=header)
        ratios = re.findall(rf"^THREADS={threads}: .*; of rung ({INTERVAL})", output, re.MULTILINE)
        assert [float(ratio.split()[0]) for ratio in ratios] == pytest.approx([1.0], rel=0.05), (
            output
        )
        assert f"\n  rung: THREADS={threads}\n" in output
        assert SINCE not in output
    assert f"{SINCE}the same machine code" in trials.try_(
        "slow(1 / THREADS); right()", "--set", "THREADS=1", header=header
    )


def test_a_best_rung_may_be_faster_than_the_device_without_tensor_cores(trials):
    trials.write("slow(0.1); right()", name="fast")
    earlier_results(trials, 256, fast=0.5)
    assert re.search(rf"; of fast {INTERVAL}; ", trials.try_("right()", "--size", "256"))
    output = trials.try_("slow(0.1); right()", "--size", "256", code=1)  # the kernel itself may not
    assert "uniform, faster than the device: " in output


def test_garbage_in_what_is_kept_is_a_line_that_names_the_file(trials):
    trials.try_("right()")
    for kept, message in {
        "simulated/environment.json": r"simulated/environment\.json: has no .*; expected what "
        r"describes a device",
        "cuda/mine.json": r"cuda/mine\.json: JSONDecodeError.*; expected what the last correct try "
        r"has left",
        "cuda/mine.cu": r"cuda/mine\.json: InputError: .*mine\.cu: no header.*; expected what the "
        r"last correct try has left",
    }.items():
        before = (trials.kept / kept).read_bytes()
        (trials.kept / kept).write_text("garbage")
        output = trials.try_("right()", code=2)
        (trials.kept / kept).write_bytes(before)
        assert re.search(rf"^Error: .*/results/try/.*{message}", output, re.MULTILINE), output


def test_a_file_where_a_folder_is_needed_is_no_wrong_kernel(trials):
    trials.kept.parent.mkdir()
    trials.kept.touch()
    assert re.search(
        r"^Error: .*/results/try.*: Not a directory; ", trials.try_("right()", code=2), re.MULTILINE
    )


def test_a_verdict_holds_where_nothing_can_be_kept(trials):
    trials.kept.mkdir(parents=True)
    (trials.kept / "cuda").touch()
    for does, verdict in {"right()": "correct; ", "right(alpha=3)": "incorrect; "}.items():
        last, warning = trials.try_(does, code=int(verdict == "incorrect; ")).splitlines()[-2:]
        assert last.startswith(verdict)
        assert re.match(
            r"Warning: nothing is kept of it for the next try: .*/results/try/cuda: cannot be "
            r"written: ",
            warning,
        )


def test_a_last_correct_try_that_fails_on_another_problem_is_not_held_against_this_one(trials):
    trials.try_("die(11) if p.n == 600 else right()")
    output = trials.try_("right()", "--problem", "8x600x8")
    assert f"{SINCE}it could not be timed again: on M=8 N=600 K=8 " in output
    assert "killed by signal 11" in output


def test_a_line_says_how_many_cores_other_processes_used_meanwhile(
    trials, monkeypatch, virtual_clock
):
    simulate_cpu(monkeypatch)
    path = trials.write("right()", kind="cpu")

    def used(everyone, worker):
        zero = psutil.cpu_times()._replace(**dict.fromkeys(psutil.cpu_times()._fields, 0.0))

        class Machine:
            def cpu_times(self, percpu):
                busy = everyone * virtual_clock.now()
                (first, *_) = os.sched_getaffinity(0)
                elsewhere = zero._replace(user=9 * busy)  # on a core that this process may not use
                here = zero._replace(user=busy, idle=3 * busy, iowait=busy)
                return [*[zero] * first, here, *[zero] * os.cpu_count(), elsewhere]

            class Process:
                def __init__(self, pid):
                    pass

                def cpu_times(self):
                    busy = worker * virtual_clock.now()
                    return psutil.Process().cpu_times()._replace(user=busy, system=0.0)

        monkeypatch.setattr("ladder.measuring.session.psutil", Machine())
        return re.findall(
            "timed while other processes used (.*)", trials.ladder("try", path, "--size", "32")
        )

    assert used(everyone=2.3, worker=1.0) == [f"1.3 of {len(os.sched_getaffinity(0))} cores"]
    assert used(everyone=1.1, worker=1.0) == []


def test_a_cuda_kernel_with_its_model_its_compilers_and_the_stalls(trials, gpus, monkeypatch):
    gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"others": [2]}))
    (trials.root / "kernels" / "cuda" / "mine.cu").write_text(cuda_kernel("mine", CU_RIGHT))
    try_ = ["try", "kernels/cuda/mine.cu", "--problem", "8x9x10", "--counters"]
    output = trials.ladder(*try_, "--set", "BX=8,16", "--set", "compiler=nvcc,nvrtc")
    assert output.startswith("cuda/mine, float32, 8 x 9 x 10 on Simulated\n")
    for label in ("BX=8", "BX=16", "BX=8 compiler=nvrtc", "BX=16 compiler=nvrtc"):
        assert re.search(
            rf"^not a result: {label}: {INTERVAL} TFLOP/s; of cublas {INTERVAL}",
            output,
            re.MULTILINE,
        ), output
    assert (
        "32 registers, 0 bytes of spills, 0 bytes of static shared memory; 0 bytes of shared "
        "memory a block, 32 blocks an SM, occupancy" in output
    )
    assert (
        "\n  measure again while nothing else runs: timed while 2 other process(es) computed on "
        "the device\n" in output
    )
    assert "no counters: " in output
    stalls = (
        f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"
        for name in ("barrier", "long_scoreboard", "wait")
    )
    table = '"ID","{}","{}","{}"\\n"","inst","inst","inst"\\n"0","0.25","1.5","0.5"'.format(*stalls)
    written(trials.root / "ncu", f"#!/bin/sh\nprintf '{table}\\n'\n", 0o755)
    monkeypatch.setenv("PATH", f"{trials.root}:{os.environ['PATH']}")
    counted = trials.ladder(*try_, "--set", "BX=8")
    assert (
        "\n  stalls, cycles an issued instruction: long scoreboard 1.5, wait 0.5, barrier 0.25\n"
        in counted
    )


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
        assert "is there already; expected a name that is not taken" in trials.ladder(
            "new", "mine", *kind, code=1
        )
    assert "expected letters, digits and _ only" in trials.ladder("new", "a-b", code=1)
    assert set(discover(trials.root)) == {"cpu/mine", "cuda/mine"}
    assert "kernels/cuda/mine.cu: is there already" in trials.ladder("new", "mine", "--ptx", code=1)


def test_a_kernel_with_tensor_maps_begins_as_the_rung_that_explains_them(trials):
    assert "mine.cu; now: ladder try" in trials.ladder("new", "mine", "--tensor")
    text = (trials.root / "kernels" / "cuda" / "mine.cu").read_text()
    assert text == (ROOT / "kernels" / "cuda" / "30_half_tensor_maps.cu").read_text().replace(
        "Half precision, tensor maps", "Mine"
    )
    assert discover(trials.root)["cuda/mine"].tensor_maps
    assert text.partition("---*/")[2].count("\n") < 60
    assert "not allowed with argument" in trials.ladder("new", "other", "--tensor", "--ptx", code=2)


def test_a_kernel_in_ptx_is_tried_and_kept_in_its_own_language(trials):
    assert "ladder try" in trials.ladder("new", "mine", "--ptx")
    path, kept = trials.root / "kernels" / "cuda" / "mine.ptx", trials.kept / "cuda"
    example = (ROOT / "kernels" / "cuda" / "64_ptx.ptx").read_text()
    assert path.read_text() == example.replace("PTX, three loops", "Mine").replace(
        "rival: true\n", ""
    )
    assert trials.ladder("try", str(path), "--size", "32").endswith("\ncorrect; 0.0 s\n")
    edit(path, "// C <-", "// python: right()\n// C <-")
    assert "since the last correct try: " in trials.ladder("try", str(path), "--size", "32")
    assert {file.name for file in kept.iterdir()} == {"mine.ptx", "mine.cubin", "mine.json"}
    path.unlink()
    # of a kernel in another language nothing is known
    assert "since the last" not in trials.try_("right()")
    assert {file.name for file in kept.iterdir()} == {"mine.cu", "mine.cubin", "mine.json"}
    trials.ladder("new", "other", "--ptx")
    output = trials.ladder("try", "kernels/cuda/other.ptx", "--set", "compiler=nvrtc", code=2)
    assert (
        "--set compiler: expected a parameter of cuda/other; only CUDA C++ is compiled so" in output
    )
