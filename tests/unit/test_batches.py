"""Batches: many products of one size in one launch, each of matrices of its own, strides apart."""

import re

import pytest
from host import host
from jobs import HEADER, Jobs
from ladder.compiling.compile import compile_kernel
from ladder.core.errors import InputError
from ladder.measuring.protocol import Candidate, Diagnose, RunGauntlet
from ladder.measuring.worker import Worker
from ladder.model import campaign_file
from ladder.model.kernel import NO_BATCH, Configuration
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from ladder.storage import samples
from planted import written
from rows import made, row
from rungs import ALL
from trying import PLAIN


def test_matrices_lie_apart_on_boundaries_of_16_bytes():
    problem = Problem(5, 7, 3, padding="1,2,3", batch=4)
    lengths = [5 * 4, 3 * 9, 5 * 10]
    gaps = [stride - length for stride, length in zip(problem.strides, lengths, strict=True)]
    assert min(gaps) >= 32
    assert len({*gaps}) == 3
    assert all(4 * stride % 16 == 0 for stride in problem.strides)
    assert problem.label == "5x7x3 padding=1,2,3 batch=4"
    assert problem.flops == 4 * 2 * 5 * 7 * 3


def kernel(folder, header="batch: true", suffix=".cu"):
    text = HEADER.format("mine", f"{header}\n")
    text = text if suffix != ".c" else text.replace("block: [1]\ngrid: [1]\n", "")
    return parse(written(folder / f"mine{suffix}", text))


def campaign(folder, header="batch: true", **data):
    mine = kernel(folder, header)
    data = {"campaign": "t", "problems": {"cuda": [{"square": 8}]}} | data
    return campaign_file.load(data, "t", {mine.id: mine})


@pytest.mark.parametrize(
    ("data", "problems", "compiled"),
    [
        ({}, ["8"], ["-"]),
        ({"batch": 3}, ["8 batch=3"], ["batched"]),
        ({"batch": [2, 1, 5]}, ["8", "8 batch=2", "8 batch=5"], ["-", "batched"]),
        (
            {"problems": {"cuda": [{"square": 8, "layout": "nt", "batch": 2}, [9, 9, 9]]}},
            ["9", "8 layout=nt batch=2"],
            ["layout=nt batched", "-"],
        ),
    ],
)
def test_a_kernel_is_compiled_for_batches_only_if_problems_ask(tmp_path, data, problems, compiled):
    made = campaign(tmp_path, "layouts: [nt, nn]\nbatch: true", **data)
    assert sorted(p.label for p in made.problems("cuda", "float32")) == sorted(problems)
    (share,) = (share for share in made.shares["cuda", "float32"] if share["kernel"])
    assert sorted(candidate["label"] for candidate in share["candidates"]) == sorted(compiled)
    for label in compiled:
        assert Configuration.of("float32", label).label == label


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ("", {"batch": 2}, f"t: batch: got more than 1; cuda/mine {NO_BATCH}"),
        ("", {"batch": 0}, "t: batch: got 0; expected a whole number from 1 to 65000, or a list"),
        ("", {"problems": {"cuda": [{"square": 8, "batch": 70000}]}}, "t: problems.cuda[0]"),
        ("batch: 2", {}, "header: batch: got 2; expected true or false"),
        ("parameters: {BATCH: 2}", {}, 'header: parameters: got "BATCH"; expected a name of'),
    ],
)
def test_a_batch_that_nobody_can_have_is_an_error(tmp_path, header, data, message):
    with pytest.raises(InputError, match=re.escape(message)):
        campaign(tmp_path, header, **data)


def test_a_language_without_the_constant_has_no_batches(tmp_path):
    with pytest.raises(InputError, match=r"batch: got true; expected only kernels in \.cu or \.c"):
        kernel(tmp_path, suffix=".ptx")


def test_a_pattern_leaves_out_kernels_without_batches():
    data = {"campaign": "t", "problems": {"cuda": [[8, 8, 8]]}, "batch": 2}
    data |= {"kernels": ["cuda/*"], "element_types": ["bfloat16"]}
    chosen = campaign_file.load(data, "t", ALL).kernels
    assert "cuda/30_half_tensor_maps" not in chosen
    assert {"cuda/34_half_late_stores", "cuda/45_half_shared_sm"} < set(chosen)


def test_a_map_of_a_batch_has_three_dimensions(tmp_path):
    maps = "batch: true\ntensor_maps: [{of: B, box: [8, 8], swizzle: 0}]"
    mine = kernel(tmp_path, maps)
    for count in (1, 5):
        problem = Problem(16, 24, 40, batch=count)
        configuration = Configuration("float32", (), batched=problem.batched)
        (b,) = mine.maps(configuration, problem.names())
        assert (b.count, b.stride) == (count, 4 * problem.strides[1] * (count > 1))
        assert mine.unmet_need(Configuration("float32", ()), problem.names()) == (
            NO_BATCH if count > 1 else ""
        )


@pytest.fixture
def jobs(tmp_path, monkeypatch, gpus):
    """A measure job of a kernel for batches and of one for single products, on both."""
    square = {"cuda": [{"square": 24, "batch": [1, 3]}]}
    jobs = Jobs(tmp_path, monkeypatch, {"both": 2, "plain": 1}, problems=square)
    path = tmp_path / "kernels" / "cuda" / "both.cu"
    path.write_text(path.read_text().replace("block", "batch: true\nblock"))
    return jobs


def test_each_binary_is_asked_about_its_problems(jobs):
    rows = samples.read(jobs.sweep("both.float32", "plain.float32"))[0]
    found = {
        (row["kernel"], row["batch"], row["configuration"], row["status"], row["reason"])
        for row in rows
    }
    assert found == {
        *(("both", 1, f"U={u}", "correct", "") for u in (1, 2)),
        *(("both", 3, f"U={u} batched", "correct", "") for u in (1, 2)),
        ("plain", 1, "-", "correct", ""),
        ("plain", 3, "-", "not_supported", NO_BATCH),
    }
    assert len(rows) == len(found)
    asked = {each.who for each in jobs.of(RunGauntlet) if each.request.batched}
    assert asked == {(f"both U={u} batched",) for u in (1, 2)}


def test_finalists_are_confirmed_on_the_batches_that_they_are_for(jobs):
    rows = jobs.confirm(jobs.sweep("both.float32", "plain.float32"))
    found = {(row["kernel"], row["batch"], "batched" in row["configuration"]) for row in rows}
    assert found == {("both", 1, False), ("both", 3, True), ("plain", 1, False)}


def test_rates_count_the_batch_and_old_samples_have_none():
    old, several = row(), row(batch=8, configuration="batched")
    best = made([old, several])
    assert best["problem"].tolist() == ["100", "100 batch=8"]
    assert best["batch"].tolist() == [1, 8]
    one, eight = best["tflops"]
    assert eight == pytest.approx(8 * one)


LOOP = """
  for (int z = 0; z < batch.count; ++z) {
    const T *a = A + z * batch.stride_a, *b = B + z * batch.stride_b; T *c = C + z * batch.stride_c;
"""


def batched(edits):
    """The plain kernel for batches, with texts replaced."""
    body = (
        PLAIN.replace("int ldc)", "int ldc, Batch batch)").replace("A[", "a[").replace("B[", "b[")
    )
    body = body.replace("C[", "c[")
    start = body.index("{", body.index("gemm"))
    body = body[: start + 1] + LOOP + body[start + 1 :] + "}\n"
    for right, planted in edits.items():
        assert right in body
        body = body.replace(right, planted)
    return body


LEFT_OUT = "the stride of the batch is left out: all products have the first {}"
NO_GAP = "the strides of the batch are not read: the matrices are taken to lie without a gap"


@pytest.mark.parametrize(
    ("edits", "guess"),
    [
        ({}, ""),
        ({"+ z * batch.stride_a": ""}, LEFT_OUT.format("A")),
        ({"+ z * batch.stride_b": ""}, LEFT_OUT.format("B")),
        (
            {"batch.stride_a,": "batch.stride_x,", "batch.stride_b": "batch.stride_a"}
            | {"batch.stride_x": "batch.stride_b"},
            "the strides of A and B in the batch are exchanged",
        ),
        (
            {"batch.stride_a": "M * lda", "batch.stride_b": "K * ldb", "batch.stride_c": "M * ldc"},
            NO_GAP,
        ),
        ({"z < batch.count": "z < 1"}, "only the first matrix of the batch is written"),
        ({"+ z * batch.stride_c": ""}, "only the first matrix of the batch is written"),
        ({"z < batch.count": "z < batch.count - 1"}, None),
        ({"  for (int z": "  C[batch.stride_c - 1] = 7;\n  for (int z"}, None),
        ({"  for (int z": "  C[batch.count * batch.stride_c + 9] = 7;\n  for (int z"}, None),
    ],
)
def test_on_the_cpu_a_fault_of_a_batch_is_found_and_told(tmp_path, edits, guess):
    header = "/*---\ntitle: mine\nidea: planted by a test\nbatch: true\n---*/\n"
    path = written(tmp_path / "mine.c", header + batched(edits))
    configuration = Configuration("float32", (), batched=True)
    (built,) = compile_kernel(parse(path), [(configuration, "")], "here", tmp_path, 1)
    assert built.status == "compiled", built.reason
    candidate = Candidate("mine", configuration.label, str(path), str(tmp_path / built.binary))
    worker = Worker()
    worker.device = host()
    *_, verdict = worker.answers(RunGauntlet("float32", candidate, batched=True))
    assert verdict.status == ("correct" if guess == "" else "incorrect"), verdict.reason
    problem = Problem(20, 20, 20, padding="1,2,3", distribution="exact", batch=3)
    (answer,) = worker.answers(Diagnose(problem, candidate))
    if guess:
        told = [words for guesses in answer.diagnosis["guesses"] for words in guesses]
        assert any(words.startswith(guess) for words in told), told
