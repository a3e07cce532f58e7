"""The gauntlet, run by the worker on C kernels: what goes wrong somewhere fails, and the verdict
names the problem.
"""

import itertools
import json
import re
from dataclasses import replace

import pytest
from host import host
from ladder.compiling.compile import compile_kernel
from ladder.devices.operands import exactly, whole
from ladder.measuring import gauntlet
from ladder.measuring import worker as worker_module
from ladder.measuring.protocol import Candidate, RunGauntlet
from ladder.measuring.verify import INEXACT, Verdict
from ladder.measuring.worker import LAUNCHES, Worker
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from planted import C_RIGHT, ROOT, c_kernel, written

NUMBERS = itertools.count(900)


class Connection:
    """What the worker sends."""

    def __init__(self):
        self.sent = []

    def send_bytes(self, answer):
        self.sent.append(json.loads(answer))


@pytest.fixture(scope="module")
def worker():
    made = Worker(Connection())
    made.device = host()
    return made


def run(worker, folder, body, element_type="float32", header="", before=""):
    """The verdict on a C kernel of a given body, and the problems that were tried."""
    text = (
        c_kernel("planted", body)
        .replace("---*/", f"{header}element_types: [float32, float64]\n---*/", 1)
        .replace("void gemm", f"{before}void gemm", 1)
    )
    # a device loads a kernel's configuration once
    path = written(folder / "cpu" / f"{next(NUMBERS)}_planted.c", text)
    kernel = parse(path)
    (configuration, _) = next(kernel.expand({}, [element_type]))
    (row,) = compile_kernel(kernel, [(configuration, "")], "here", folder / "build", 1)
    worker.connection.sent.clear()
    worker._do(
        RunGauntlet(
            element_type,
            Candidate(kernel.name, path=str(path), binary=str(folder / "build" / row.binary)),
        )
    )
    *tried, (last, verdict) = worker.connection.sent
    assert last == "Judged"
    return verdict, [fields["problem"] for _, fields in tried]


@pytest.mark.parametrize("element_type", ["float32", "float64"])
def test_a_right_kernel_passes_all_of_it(worker, tmp_path, element_type):
    verdict, tried = run(worker, tmp_path, C_RIGHT, element_type)
    assert (verdict["status"], verdict["reason"], verdict["tensor_cores"]) == ("correct", "", False)
    assert tried == [gauntlet.describe(problem) for problem in gauntlet.problems(element_type)]
    assert len(set(tried)) == len(gauntlet.PROBLEMS + gauntlet.ROUNDED)


def test_a_baseline_is_asked_what_kernels_are(worker):
    worker.connection.sent.clear()
    worker._do(RunGauntlet("float32", Candidate("blas_1")))
    *tried, (_, verdict) = worker.connection.sent
    assert (verdict["status"], verdict["reason"]) == ("correct", "")
    assert [fields["problem"] for _, fields in tried] == [
        gauntlet.describe(problem) for problem in gauntlet.problems("float32")
    ]


# nothing that these write lies beyond the canaries: it is this process's memory
OLD = "C[(size_t)m * ldc + n]"
EXTRA = f"{OLD} = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * {OLD});"
WRONG = {
    "lda is ignored": (("A[(size_t)m * lda + k]", "A[(size_t)m * K + k]"), "padding=1 exact"),
    "ldb is ignored": (("B[(size_t)k * ldb + n]", "B[(size_t)k * N + n]"), "padding="),
    "ldc is ignored": ((EXTRA, EXTRA.replace("m * ldc", "m * N")), "padding="),
    "M and N are swapped": (
        ("int m = 0; m < M", "int t = M, u = M = N, v = N = t, m = 0; m < (M < N ? M : N)"),
        "M=1 N=129 K=1 ",
    ),
    "alpha is ignored": ((EXTRA, EXTRA.replace("alpha * sum", "sum")), "alpha="),
    "beta is taken for 1": ((EXTRA, EXTRA.replace("beta * C", "C")), "beta="),
    "beta is ignored": ((EXTRA, EXTRA.replace("+ (beta", "+ 0 * (beta")), "beta="),
    "C is read where beta is 0": (
        (EXTRA, EXTRA.replace("(beta == 0 ? 0 : beta *", "(beta *")),
        "M=1 N=1 K=1 exact",
    ),
    "the last of K is left out": (("k < K", "k < K - (K > 1)"), "K=257 "),
    "K beyond 1024 is left out": (("k < K", "k < K && k < 1024"), "K=1030 "),
    "the last row is left out where M is odd": (
        ("m < M", "m < M - (M % 2 && M > 64)"),
        "M=127 N=1 K=63 ",
    ),
    "a float where the type is double": (("Acc sum = 0", "float sum = 0"), None),
    "ldb is tied to lda": (
        ("A[(size_t)m * lda + k] *", "A[(size_t)m * lda + k] * (ldb - N == lda - K) *"),
        "padding=1,0,0 ",
    ),
    "ldc is tied to ldb": ((EXTRA, "ldc = N + 2 * (ldb - N); " + EXTRA), "padding=0,1,0 "),
    "offsets are tied": (
        ("Acc sum = 0", "Acc sum = ((size_t)A ^ (size_t)B | (size_t)B ^ (size_t)C) % 16 != 0"),
        "offset=1,0,0 ",
    ),
    "C is divided by alpha": (
        (
            EXTRA,
            f"C[(size_t)m * ldc + n] = alpha * (sum + (beta == 0 ? 0 : beta / alpha * {OLD}));",
        ),
        "alpha=0 ",
    ),
    "C is left as it is where alpha is 0": ((EXTRA, f"if (alpha != 0) {EXTRA}"), "alpha=0 "),
    "NaN is written where alpha is 0": (
        (EXTRA, EXTRA.replace("alpha == 0 ? 0 :", "alpha == 0 ? 0.0f / 0 :")),
        "alpha=0 beta=-0.5 exact",
    ),
    "a number is wrong beside NaN": (
        (EXTRA, EXTRA.replace("alpha == 0 ?", "alpha == 0 && sum != sum ? 1 : alpha == 0 ?")),
        "-0.5 nonfinite",
    ),
    "C is overrun beside NaN": (
        (EXTRA, f"{EXTRA} if (alpha == 0 && sum != sum) C[(size_t)M * ldc] = 1;"),
        "alpha=0 beta=-0.5 nonfinite",
    ),
    "C counts only where it is finite": (
        (EXTRA, EXTRA.replace("(beta == 0", f"(beta == 0 || {OLD} - {OLD} != 0")),
        "beta=0.75 nonfinite ",
    ),
    "what is not finite becomes 0": (
        (EXTRA, EXTRA.replace("(alpha == 0", "(alpha == 0 || sum - sum != 0")),
        "nonfinite",
    ),
    "A is overwritten beside C": (
        ("Acc sum = 0;", "C[(size_t)M * ldc] = 1; Acc sum = 0;"),
        "M=1 N=1 K=1 exact",
    ),
}


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
def test_a_kernel_in_the_style_of_a_tutorial_is_correct(worker, tmp_path, style):
    """Those that multiply by an alpha of 0 are marked, because BLAS leaves open whether NaN in A
    and B counts then.
    """
    verdict, tried = run(worker, tmp_path, STYLES[style], before=MACROS)
    assert (verdict["status"], verdict["reason"], len(tried)) == (
        "correct",
        "",
        len(gauntlet.problems("float32")),
    )
    assert verdict["nan_at_alpha_0"] == (style != "a branch for alpha 0")


@pytest.mark.parametrize("fault", list(WRONG))
def test_a_fault_is_found_and_its_problem_named(worker, tmp_path, fault):
    (right, wrong), where = WRONG[fault]
    assert right in C_RIGHT
    verdict, tried = run(
        worker, tmp_path, C_RIGHT.replace(right, wrong), "float32" if where else "float64"
    )
    assert verdict["status"] == "incorrect"
    assert re.fullmatch(r"on M=\d+ N=\d+ K=\d+ .*: .+", verdict["reason"])
    assert verdict["reason"].startswith(f"on {tried[-1]}: ")  # and nothing is tried after it
    assert not where or where in f"{tried[-1]} "


def test_a_race_that_one_launch_does_not_show_is_seen_by_the_next(worker, tmp_path):
    """On the CPU by a count: wrong at every second launch."""
    verdict, tried = run(
        worker, tmp_path, "static int calls = 0; if (++calls % 2 == 0) K -= 1;" + C_RIGHT
    )
    assert LAUNCHES > 1
    assert verdict["status"] == "incorrect"
    assert len(tried) == 1


def test_what_a_kernel_needs_is_asked_and_nothing_else(worker, tmp_path):
    body = "if (M % 2) *(volatile int *)8 = 1;" + C_RIGHT
    verdict, tried = run(worker, tmp_path, body, header='needs: ["M % 2 == 0"]\n')
    assert verdict["status"] == "correct"
    odd = sum(problem.m % 2 for problem in gauntlet.problems("float32"))
    assert (verdict["gauntlet_problems"], verdict["gauntlet_changed"]) == (len(tried), odd)
    assert len(tried) == len(gauntlet.problems("float32"))


def test_a_fault_that_only_rounded_problems_show_is_found(worker, tmp_path):
    """Where M, N and K are multiples of 16, no problem of the list has this alpha."""
    body = "if (alpha == -0.5) alpha = 0.5;" + C_RIGHT
    verdict, tried = run(
        worker, tmp_path, body, header="needs: [M % 16 == 0, N % 16 == 0, K % 16 == 0]\n"
    )
    assert verdict["status"] == "incorrect"
    assert tried[-1] == "M=16 N=16 K=272 alpha=-0.5 exact"
    assert verdict["reason"].startswith(f"on {tried[-1]}: ")


def test_a_kernel_that_fits_no_problem_is_asked_none(worker, tmp_path):
    verdict, tried = run(worker, tmp_path, C_RIGHT, header="needs: [M == 4096]\n")
    assert (verdict["status"], verdict["gauntlet_problems"], tried) == ("correct", 0, [])


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
    kernel = Kernel("cpu", "k", ROOT / "kernels" / "cpu" / "k.c", "", "K", "k", needs=needs)
    configuration = Configuration("float32", ())
    assert (
        gauntlet.rounded(
            GIVEN, lambda problem: not kernel.unmet_need(configuration, problem.names())
        )
        == expected
    )


def test_the_list_is_where_kernels_go_wrong():
    for element_type, tf32 in (
        ("float32", False),
        ("float32", True),
        ("float64", False),
        ("float16", False),
        ("bfloat16", False),
    ):
        problems = gauntlet.problems(element_type, tf32)
        assert {problem.element_type for problem in problems} == {element_type}
        assert {problem.distribution for problem in problems} == {
            "exact_tf32" if tf32 else "exact",
            "uniform",
            "nonfinite",
            "positive",
            "mixed",
        }
        whole = [problem for problem in problems if problem.distribution.startswith("exact")]
        # factors that leave whole numbers whole
        assert all(exactly(problem, tf32) == problem for problem in whole)
        for side in ("m", "n", "k"):
            assert {1} < {getattr(problem, side) for problem in whole}
            assert {getattr(problem, side) % 2 for problem in whole} == {0, 1}
        for several in ("offsets", "paddings"):
            triples = [getattr(problem, several) for problem in whole]
            assert {numbers[0] % 4 for numbers in triples} == {0, 1, 2, 3}
            assert {tuple(number % 4 > 0 for number in numbers) for numbers in triples} >= {
                (1, 0, 0),
                (0, 1, 0),
                (0, 0, 1),
            }
            assert sum(len(set(numbers)) == 3 for numbers in triples) >= 1
        assert (
            sum(
                isinstance(problem.padding, str) and isinstance(problem.offset, str)
                for problem in whole
            )
            >= 4
        )
        assert {problem.beta == 0 for problem in whole} == {True, False}
    assert (
        gauntlet.describe(gauntlet.problems("float32")[6])
        == "M=7 N=13 K=3 padding=3 alpha=0.5 beta=-1 exact"
    )


@pytest.mark.parametrize(
    ("name", "status"), [("cublas", "correct"), ("cublas_fp32_sums", "incorrect")]
)
def test_a_baseline_that_may_add_in_16_bits_need_not_be_exact_on_whole_numbers(
    worker, monkeypatch, name, status
):
    monkeypatch.setattr(worker_module, "OF_CUDA", ("float32",))  # the host has no types of 16 bits
    inexact = Verdict("incorrect", f"C[0][0] {INEXACT}, of which all sums are")
    monkeypatch.setattr(
        worker_module,
        "judge",
        lambda errors, problem, tf32: inexact if whole(problem) else Verdict("correct"),
    )
    worker._do(RunGauntlet("float32", Candidate(name)))
    _, verdict = worker.connection.sent[-1]
    assert (verdict["status"], verdict["sums_16_bit"]) == (status, status == "correct")
