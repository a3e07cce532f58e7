"""The gauntlet, run by the worker on C kernels: what goes wrong somewhere fails, and the verdict
names the problem.
"""

import itertools
import math
import re
from dataclasses import replace
from unittest.mock import Mock

import pytest
from host import host
from ladder.compiling.compile import compile_kernel
from ladder.devices.operands import exactly, whole
from ladder.measuring import gauntlet
from ladder.measuring import worker as worker_module
from ladder.measuring.protocol import Candidate, RunGauntlet
from ladder.measuring.verify import judge
from ladder.measuring.worker import Worker
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from planted import C_RIGHT, HOME, c_kernel, written

NUMBERS = itertools.count(900)
FURTHER = [gauntlet.describe(exactly(problem)) for problem in gauntlet.LONG + gauntlet.OF_CPU]
ASKED = {
    element_type: [*map(gauntlet.describe, gauntlet.problems(element_type)), *FURTHER]
    for element_type in ("float32", "float64")
}
"""Of a kernel."""


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    made.device = host()
    return made


def judged(worker, candidate, element_type="float32"):
    """The verdict on a candidate, and the problems that were tried."""
    *tried, verdict = worker.answers(RunGauntlet(element_type, candidate))
    return verdict, [trying.problem for trying in tried]


@pytest.fixture
def run(worker, tmp_path):
    """Returns the verdict on a C kernel of a given body, and the problems that were tried."""

    def run(body, element_type="float32", header="", before=""):
        text = (
            c_kernel("planted", body)
            .replace("---*/", f"{header}element_types: [float32, float64]\n---*/", 1)
            .replace("void gemm", f"{before}void gemm", 1)
        )
        # a device loads a kernel's configuration once
        path = written(tmp_path / "cpu" / f"{next(NUMBERS)}_planted.c", text)
        kernel = parse(path)
        (configuration, _) = next(kernel.expand({}, [element_type]))
        (row,) = compile_kernel(kernel, [(configuration, "")], "here", tmp_path / "build", 1)
        binary = str(tmp_path / "build" / row.binary)
        return judged(worker, Candidate(kernel.name, path=str(path), binary=binary), element_type)

    return run


@pytest.mark.parametrize("element_type", list(ASKED))
def test_a_right_kernel_passes_all_of_it(run, element_type):
    verdict, tried = run(C_RIGHT, element_type)
    assert (verdict.status, verdict.reason, verdict.tensor_cores) == ("correct", "", False)
    assert tried == ASKED[element_type]
    assert len(set(tried)) == len(gauntlet.PROBLEMS + gauntlet.ROUNDED) + len(FURTHER)


def test_a_problem_without_addresses_for_it_is_left_out(run, monkeypatch):
    """As a limit on the addresses of a process has it."""
    refused = OSError(12, "Cannot allocate memory")
    monkeypatch.setattr("ladder.devices.cpu.mmap.mmap", Mock(side_effect=refused))
    verdict, tried = run(C_RIGHT)
    assert (verdict.status, verdict.reason) == ("correct", "")
    assert verdict.gauntlet_problems == len(tried) - 1


def test_a_baseline_is_asked_what_kernels_are(worker):
    verdict, tried = judged(worker, Candidate("blas_1"))
    assert (verdict.status, verdict.reason, tried) == (
        "correct",
        "",
        ASKED["float32"][: -len(FURTHER)],
    )


# nothing that these write lies beyond the canaries: it is this process's memory
OLD, BEFORE, BEHIND = "C[(size_t)m * ldc + n]", "Acc sum = 0;", "C[(size_t)M * ldc] = 1;"
STORE = f"{OLD} = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * {OLD});"
WRONG = {
    "ldb is ignored": ("k * ldb", "k * N", "padding="),
    "ldc is ignored": ("m * ldc", "m * N", "padding="),
    "beta is taken for 1": ("beta * C", "C", "beta="),
    "the last of K is left out": ("k < K", "k < K - (K > 1)", "K=257 "),
    "K beyond 1024 is left out": ("k < K", "k < K && k < 1024", "K=1025 "),
    "a float where the type is double": ("Acc sum", "float sum", ""),
    "ldb is tied to lda": ("k] * B", "k] * (ldb - N == lda - K) * B", "padding=1,0,0 "),
    "ldc is tied to ldb": (BEFORE, f"ldc = N + 2 * (ldb - N); {BEFORE}", "padding=0,1,0 "),
    "offsets are tied": (
        "sum = 0",
        "sum = ((size_t)A ^ (size_t)B | (size_t)B ^ (size_t)C) % 16 != 0",
        "offset=1,0,0 ",
    ),
    "C is left as it is where alpha is 0": (STORE, f"if (alpha != 0) {STORE}", "alpha=0 "),
    "NaN is written where alpha is 0": (
        "(alpha == 0 ? 0",
        "(alpha == 0 ? 0.0f / 0",
        "alpha=0 beta=-0.5 exact",
    ),
    "a number is wrong beside NaN": (
        "(alpha == 0",
        "(alpha == 0 && sum != sum ? 1 : alpha == 0",
        "-0.5 nonfinite",
    ),
    "C is overrun beside NaN": (
        STORE,
        f"{STORE} if (alpha == 0 && sum != sum) {BEHIND}",
        "alpha=0 beta=-0.5 nonfinite",
    ),
    "what is not finite becomes 0": ("(alpha == 0", "(alpha == 0 || sum - sum != 0", "nonfinite"),
    "A is overwritten beside C": (BEFORE, f"{BEHIND} {BEFORE}", "M=1 N=1 K=1 exact"),
    # on the CPU by a count: one launch does not show it, and the next does
    "a race": (
        "\n  for (int m",
        "static int calls = 0; K -= ++calls % 2 == 0; for (int m",
        "M=1 N=1 K=1 ",
    ),
}
"""What is replaced in a right kernel, and a part of the problem's description. A float is no fault
in float32. `tests/frauds/frauds.yaml` has others.
"""


@pytest.mark.parametrize("fault", list(WRONG))
def test_a_fault_is_found_and_its_problem_named(run, fault):
    right, wrong, where = WRONG[fault]
    assert right in C_RIGHT
    verdict, tried = run(C_RIGHT.replace(right, wrong), "float32" if where else "float64")
    assert verdict.status == "incorrect"
    assert re.fullmatch(r"on M=\d+ N=\d+ K=\d+ .*: .+", verdict.reason)
    assert verdict.reason.startswith(f"on {tried[-1]}: ")  # and nothing is tried after it
    assert where in f"{tried[-1]} "


# of kernels in tutorials: how the sums, alpha, beta and the order of the matrices are handled
STYLES = {
    "one expression": "EACH { Acc sum = 0; ALONG sum += A_ * B_; C_ = alpha * sum + (beta == 0 ? 0 "
    ": beta * C_); }",
    "C is scaled, then added to": "SCALE EACH { Acc sum = 0; ALONG sum += A_ * B_; C_ += alpha * "
    "sum; }",
    "sums in C": "SCALE EACH ALONG C_ += alpha * A_ * B_;",
    "alpha with A while loading": "EACH { Acc sum = 0; ALONG { const Acc a = alpha * A_; sum += a "
    "* B_; } STORE(sum) }",
    "alpha with B while loading": "EACH { Acc sum = 0; ALONG { const Acc b = alpha * B_; sum += A_ "
    "* b; } STORE(sum) }",
    "a branch for beta 0": "EACH { Acc sum = 0; ALONG sum += A_ * B_; sum *= alpha; if (beta == 0) "
    "C_ = sum; else C_ = sum + beta * C_; }",
    "a branch for alpha 0": "if (alpha == 0) { SCALE return; } EACH { Acc sum = 0; ALONG sum += A_ "
    "* B_; STORE(alpha * sum) }",
    "the sum begins as beta C": "EACH { Acc sum = beta == 0 ? 0 : beta * C_; ALONG sum += alpha * "
    "A_ * B_; C_ = sum; }",
    "parts of K": "SCALE for (int p = 0; p < K; p += 8) EACH { Acc sum = 0; PART sum += A_ * B_; "
    "C_ += alpha * sum; }",
    "tiles padded with 0": "EACH { Acc sum = 0; for (int k = 0; k < (K | 7) + 1; ++k) sum += k < K "
    "? A_ * B_ : 0; STORE(alpha * sum) }",
    "outer products": "SCALE ALONG EACH C_ += A_ * (alpha * B_);",
    "column-major, operands exchanged": "columns(N, M, K, alpha, B, ldb, A, lda, beta, C, ldc);",
}
MACROS = """
#define EACH for (int m = 0; m < M; ++m) for (int n = 0; n < N; ++n)
#define ALONG for (int k = 0; k < K; ++k)
#define PART for (int k = p; k < K && k < p + 8; ++k)
#define A_ A[(size_t)m * lda + k]
#define B_ B[(size_t)k * ldb + n]
#define C_ C[(size_t)m * ldc + n]
#define SCALE EACH C_ = beta == 0 ? 0 : beta * C_;
#define STORE(value) C_ = (value) + (beta == 0 ? 0 : beta * C_);
static void columns(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc) {
  for (int n = 0; n < N; ++n)
    for (int m = 0; m < M; ++m) {
      Acc sum = 0;
      ALONG sum += A[m + (size_t)k * lda] * B[k + (size_t)n * ldb];
      C[m + (size_t)n * ldc] = alpha * sum + (beta == 0 ? 0 : beta * C[m + (size_t)n * ldc]);
    }
}
"""


@pytest.mark.parametrize("style", list(STYLES))
def test_a_kernel_in_the_style_of_a_tutorial_is_correct(run, style):
    """Those that multiply by an alpha of 0 are marked, because BLAS leaves open whether NaN in A
    and B counts then.
    """
    verdict, tried = run(STYLES[style], before=MACROS)
    assert (verdict.status, verdict.reason, tried) == ("correct", "", ASKED["float32"])
    assert verdict.nan_at_alpha_0 == (style != "a branch for alpha 0")


ODD = sum(
    problem.m % 2 for problem in [*gauntlet.problems("float32"), *gauntlet.LONG, *gauntlet.OF_CPU]
)


@pytest.mark.parametrize(
    ("needs", "fault", "reason", "tried", "changed"),
    [
        ("M % 2 == 0", "if (M % 2) *(volatile int *)8 = 1;", "", len(ASKED["float32"]), ODD),
        ("M == 4096", "", "", 0, 0),  # no problem fits
        # only rounding shows it: where sizes are multiples of 16, no problem has this alpha
        (
            "M % 16 == 0, N % 16 == 0, K % 16 == 0",
            "if (alpha == -0.5) alpha = 0.5;",
            "on M=16 N=16 K=272 alpha=-0.5 exact: ",
            None,
            None,
        ),
    ],
)
def test_what_a_kernel_needs_is_asked_and_nothing_else(run, needs, fault, reason, tried, changed):
    verdict, asked = run(fault + C_RIGHT, header=f"needs: [{needs}]\n")
    assert verdict.status == ("incorrect" if reason else "correct")
    assert verdict.reason.startswith(reason)
    assert verdict.gauntlet_problems == len(asked)
    if tried is not None:
        assert (len(asked), verdict.gauntlet_changed) == (tried, changed)


GIVEN = Problem(31, 45, 257, padding="1,0,3", offset="1,0,2", alpha=-0.5, beta=2.0)
NEEDS = {
    "nothing": ([], GIVEN),
    "what is so": (["K > 1", "beta != 0"], GIVEN),
    "N alone": (["N % 16 == 0"], replace(GIVEN, n=48)),
    "M and K": (["M % 4 == 0", "K % 64 == 0"], replace(GIVEN, m=32, k=320)),
    "a leading dimension": (["ldc % 4 == 0"], GIVEN),
    "all leading dimensions": (
        ["lda % 4 + ldb % 4 + ldc % 4 == 0"],
        replace(GIVEN, padding="3,3,3"),
    ),
    "an address": (["alignment_a >= 8"], replace(GIVEN, offset="2,0,2")),
    "all addresses": (["alignment == 16"], replace(GIVEN, offset="4,0,4")),
    "no padding": (["lda == K", "ldb == N"], replace(GIVEN, padding="0,0,3")),
    "no padding, and fours": (["lda == K", "K % 4 == 0"], replace(GIVEN, k=260, padding="0,0,3")),
    "squares": (["M == N", "N == K", "K % 8 == 0"], replace(GIVEN, m=48, n=48, k=48)),
    "a least size": (["M >= 100"], replace(GIVEN, m=128)),
    "only A B": (["alpha == 1", "beta == 0"], replace(GIVEN, alpha=1.0, beta=0.0)),
    "A B + C": (
        ["alpha == 1", "beta == 1", "M % 2 == 0"],
        replace(GIVEN, m=32, alpha=1.0, beta=1.0),
    ),
    "what cannot be": (["M < 4"], None),
}


@pytest.mark.parametrize("what", list(NEEDS))
def test_a_problem_is_changed_as_little_as_suffices(what):
    needs, expected = NEEDS[what]
    kernel = Kernel("cpu", "k", HOME / "kernels" / "cpu" / "k.c", "", "K", "k", needs=needs)
    configuration = Configuration("float32", ())
    assert (
        gauntlet.rounded(
            GIVEN, lambda problem: not kernel.unmet_need(configuration, problem.names())
        )
        == expected
    )


@pytest.mark.parametrize(
    ("element_type", "precision"),
    [("float32", ""), ("float32", "tf32"), ("float64", ""), ("bfloat16", "")],
)
def test_the_list_is_where_kernels_go_wrong(element_type, precision):
    problems = gauntlet.problems(element_type, precision)
    assert {problem.element_type for problem in problems} == {element_type}
    exact = "exact_tf32" if precision else "exact"
    distributions = {problem.distribution for problem in problems}
    rounded = {"uniform", "normal", "nonfinite", "positive", "mixed", "scaled", "lognormal"}
    assert distributions == {exact, *rounded}
    whole = [problem for problem in problems if problem.distribution == exact]
    # factors that leave whole numbers whole
    assert all(exactly(problem, precision) == problem for problem in whole)
    for side in ("m", "n", "k"):
        assert {getattr(problem, side) % 2 for problem in whole} == {0, 1}
    for several in ("offsets", "paddings"):
        triples = [getattr(problem, several) for problem in whole]
        assert {first % 4 for first, _, _ in triples} == {0, 1, 2, 3}
        uneven = {tuple(number % 4 > 0 for number in triple) for triple in triples}
        assert {(1, 0, 0), (0, 1, 0), (0, 0, 1)} <= uneven


@pytest.mark.parametrize(
    ("name", "status"), [("cublas", "correct"), ("cublas_fp32_sums", "incorrect")]
)
def test_a_baseline_that_may_add_in_16_bits_need_not_be_exact_on_whole_numbers(
    worker, monkeypatch, name, status
):
    monkeypatch.setattr(worker_module, "OF_CUDA", ("float32",))  # the host has no types of 16 bits

    def inexact(errors, problem, *how):
        errors = replace(errors, worst=math.inf) if whole(problem) else errors
        return judge(errors, problem, *how)

    monkeypatch.setattr(worker_module, "judge", inexact)
    verdict, _ = judged(worker, Candidate(name))
    assert (verdict.status, verdict.sums_16_bit) == (status, status == "correct")
