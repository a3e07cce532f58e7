"""The verdict on bits: planted kernels whose sums have another order in another launch, batch,
place, layout, or with other threads.
"""

import threading
from dataclasses import replace

import pytest
from host import host
from jobs import Jobs
from ladder.compiling.compile import compile_kernel
from ladder.core.surroundings import cores
from ladder.measuring import bits, protocol
from ladder.measuring.protocol import Candidate, CompareBits
from ladder.measuring.worker import Worker
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from planted import c_kernel, written

SQUARE, THIN = Problem(256, 256, 256), Problem(70, 9, 128)
BODY = """
  const char *how = getenv("PLANTED");
  if (!strcmp(how, "arrival")) {
    for (int m = 0; m < M; ++m) memset(C + (size_t)m * ldc, 0, N * sizeof(T));
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int part = 0; part < 4; ++part) {
      const long end = now() + now() % 500000;
      while (now() < end) {}
#pragma omp critical
      for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n)
          C[(size_t)m * ldc + n] += part_of(K, part, 4, A + (size_t)m * lda, B + n, ldb);
    }
    return;
  }
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      int parts = 1;
      if (!strcmp(how, "batch")) parts += M > 64;
      if (!strcmp(how, "place")) parts += m % 4 == 3;
      if (!strcmp(how, "layout")) parts += lda % 4 != 0;
      if (!strcmp(how, "threads")) parts = omp_get_max_threads();
      if (!strcmp(how, "clock")) parts += now() % 3;
      T sum = 0;
      for (int part = 0; part < parts; ++part)
        sum += part_of(K, part, parts, A + (size_t)m * lda, B + n, ldb);
      C[(size_t)m * ldc + n] = alpha * sum;
    }
"""
BEFORE = """
#include <omp.h>
#include <string.h>
#include <time.h>
static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}
static T part_of(int K, int part, int parts, const T *a, const T *b, int ldb) {
  T sum = 0;
  for (int k = K * part / parts; k < K * (part + 1) / parts; ++k) sum += a[k] * b[(size_t)k * ldb];
  return sum;
}
"""
SAME = "same: every launch, rows, alignment, processors"


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """A worker with a host, and the planted kernel to launch there."""
    folder = tmp_path_factory.mktemp("bits")
    text = c_kernel("planted", BODY).replace("void gemm", f"{BEFORE}void gemm", 1)
    path = written(folder / "cpu" / "planted.c", text)
    one = Configuration("float32", ())
    (row,) = compile_kernel(parse(path), [(one, "")], "here", folder, 1)
    made = Worker()
    made.device = host()
    made.planted = Candidate("planted", path=str(path), binary=str(folder / row.binary))
    return made


def compared(worker, candidate, problem=THIN):
    """What is found, by question."""
    *alive, answer = worker.answers(CompareBits(problem, candidate))
    assert set(alive) == {protocol.Alive()}
    assert worker.device.threads == cores()
    return answer.found


def differing(*questions):
    """The answers where these differ, on a machine with one core too, of which there is no half."""
    every = {"every_launch", "rows", "alignment", *["processors"] * (cores() > 1)}
    return {name: name in questions for name in every}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("plain", differing()),
        ("batch", differing("rows")),
        ("place", differing("rows")),
        ("layout", differing("alignment")),
        ("threads", differing("processors")),
        ("clock", {"every_launch": True}),
        ("arrival", {"every_launch": True}),
    ],
)
def test_planted_orders_of_summation_are_found(worker, monkeypatch, how, expected):
    monkeypatch.setenv("PLANTED", how)
    found = compared(worker, worker.planted)
    assert {name: bool(each) for name, each in found.items()} == expected


def test_a_batch_in_which_no_row_is_repeated_says_nothing_of_rows(worker, monkeypatch):
    asked = [bits.Asked("every_launch", replace(THIN, m=4))] * 2
    monkeypatch.setattr(bits, "launches", lambda *given: asked)
    monkeypatch.setenv("PLANTED", "place")
    assert compared(worker, worker.planted) == {"every_launch": None}


def test_all_processors_are_used_again_after_the_half(worker, monkeypatch):
    asked = [bits.Asked(question, THIN) for question in ("every_launch", "processors")]
    monkeypatch.setattr(bits, "launches", lambda *given: asked)
    monkeypatch.setenv("PLANTED", "plain")
    compared(worker, worker.planted)


@pytest.mark.parametrize("element_type", ["float32", "float64"])
@pytest.mark.parametrize("name", ["blas_1", "blas_all"])
def test_blas_repeats_its_bits(worker, name, element_type):
    """What else differs depends on the processor."""
    problem = Problem(64, 64, 64, element_type, alpha=0.5, beta=-1.0)
    found = compared(worker, Candidate(name), problem)
    assert found["every_launch"] is None
    assert found.keys() == differing().keys()


@pytest.mark.parametrize(
    ("how", "rows", "batch"), [("place", (7, 0), "M=200"), ("batch", (0, 0), "M=16")]
)
def test_the_first_difference_names_both_problems_and_rows(worker, monkeypatch, how, rows, batch):
    monkeypatch.setenv("PLANTED", how)
    first = compared(worker, worker.planted)["rows"]
    assert first["problem"] == f"{batch} N=9 K=128 repeated"
    assert first["other_problem"] == "M=200 N=9 K=128 repeated"
    assert (first["row"], first["other_row"]) == rows
    assert first["got"] != first["other"]


@pytest.mark.parametrize(
    ("problem", "kind", "meets", "batches", "alignments"),
    [
        (SQUARE, "cpu", lambda p: True, [256, 200, 65, 16, 1], 2),
        (SQUARE, "cpu", lambda p: p.m % 64 == 0, [256, 128, 64], 2),
        (SQUARE, "cpu", lambda p: p.m == p.n == p.k, [256], 2),
        (SQUARE, "cpu", lambda p: min(p.alignments) == 16, [256, 200, 65, 16, 1], 1),
        (Problem(1, 64, 64), "cpu", lambda p: True, [200, 65, 16, 1], 2),
        (Problem(4096, 4096, 4096), "cpu", lambda p: True, [65, 16, 1], 2),
        (Problem(4096, 4096, 4096), "cuda", lambda p: True, [4096, 200, 65, 16, 1], 2),
        (Problem(16384, 16384, 16384), "cuda", lambda p: p.m % 8 == 0, [376, 200, 72, 16, 8], 2),
    ],
)
def test_batches_are_what_a_kernel_takes_and_take_milliseconds(
    problem, kind, meets, batches, alignments
):
    asked = list(bits.launches(problem, kind, lambda p: "" if meets(p) else "needs it"))
    assert [each.problem.m for each in asked if each.question == "rows"] == batches[1:]
    assert {each.problem.m for each in asked if each.question != "rows"} == {batches[0]}
    assert sum(each.question == "alignment" for each in asked) == alignments
    assert all(meets(each.problem) for each in asked)
    assert [each.busy for each in asked if each.question == "every_launch"] == [False, True] * 4


def test_other_work_computes_on_every_core_until_its_end(worker, monkeypatch):
    device, computing = worker.device, threading.Barrier(cores() + 1)
    monkeypatch.setattr(device, "_fma", lambda rounds: computing.wait(9))
    with device.busy():
        computing.wait(9)  # comes when every core has such a thread
        computing.abort()


def test_the_confirmation_compares_bits_once_and_no_failure_there_counts(
    tmp_path, monkeypatch, gpus
):
    monkeypatch.setattr("ladder.devices.cpu.cores", lambda: 2)
    jobs = Jobs(tmp_path, monkeypatch, dict.fromkeys("abc", 1), problems={"cuda": [[8, 8, 8]]})
    jobs.does |= {
        "b": "right(); c *= 1 + 1e-6 * (p.distribution == 'repeated' and p.m == 1)",
        "c": "fail('no more') if p.distribution == 'repeated' else right()",
    }
    rows = jobs.confirm(jobs.sweep(*(f"{name}.float32" for name in "abc")))
    assert {row["status"] for row in rows} == {"correct"}
    said = {(row["kernel"], row["process"]): row["bits"] for row in rows if row["bits"] is not None}
    assert said == {
        ("a", 1): SAME,
        ("b", 1): "same: every launch, alignment, processors; differ: rows",
        ("c", 1): SAME.replace("same", "not tested"),
    }
