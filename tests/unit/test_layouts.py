"""Matrices that lie in memory transposed: what a campaign asks for, what each kernel is compiled for
and asked, and how tables tell the layouts apart.
"""

import re

import pytest
from host import host
from jobs import HEADER, Jobs
from ladder.compiling.compile import compile_kernel
from ladder.core.errors import InputError
from ladder.core.types import LAYOUTS
from ladder.measuring.protocol import Candidate, Diagnose, RunGauntlet
from ladder.measuring.worker import Worker
from ladder.model import campaign_file
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from ladder.storage import samples
from planted import written
from rows import made, row
from rungs import ALL
from trying import PLAIN

UNSUPPORTED = "supports the layouts nn only"


@pytest.mark.parametrize(
    ("layout", "shapes", "leading"),
    [
        ("nn", [(5, 7), (7, 6), (5, 6)], (8, 8, 9)),
        ("tn", [(7, 5), (7, 6), (5, 6)], (6, 8, 9)),
        ("tt", [(7, 5), (6, 7), (5, 6)], (6, 9, 9)),
    ],
)
def test_a_transposed_matrix_has_its_rows_in_memory(layout, shapes, leading):
    problem = Problem(5, 6, 7, padding="1,2,3", layout=layout)
    assert problem.shapes == shapes
    assert (problem.lda, problem.ldb, problem.ldc) == leading
    assert problem.label == "5x6x7 padding=1,2,3" + f" layout={layout}" * (layout != "nn")


def kernel(folder, layouts="[nn, nt]", suffix=".cu"):
    header = HEADER.format("mine", f"layouts: {layouts}\n")
    header = header if suffix != ".c" else header.replace("block: [1]\ngrid: [1]\n", "")
    return parse(written(folder / f"mine{suffix}", header))


def campaign(folder, layouts="[nn, nt]", **data):
    mine = kernel(folder, layouts)
    data = {"campaign": "t", "problems": {"cuda": [{"square": 8}]}} | data
    return campaign_file.load(data, "t", {mine.id: mine})


@pytest.mark.parametrize(
    ("data", "problems", "compiled"),
    [
        ({}, ["8"], ["-"]),
        ({"layout": "nt"}, ["8 layout=nt"], ["layout=nt"]),
        ({"layout": ["tt", "nt", "nn"]}, ["8 layout=tt", "8 layout=nt", "8"], ["layout=nt", "-"]),
        (
            {"problems": {"cuda": [[8, 8, 8], {"square": 9, "layout": ["nn", "nt"]}]}},
            ["8", "9", "9 layout=nt"],
            ["-", "layout=nt"],
        ),
    ],
)
def test_a_kernel_is_compiled_for_each_layout_that_is_asked_and_that_it_supports(
    tmp_path, data, problems, compiled
):
    made = campaign(tmp_path, **data)
    assert [problem.label for problem in made.problems("cuda", "float32")] == problems
    (share,) = (share for share in made.shares["cuda", "float32"] if share["kernel"])
    assert [candidate["label"] for candidate in share["candidates"]] == compiled


@pytest.mark.parametrize(
    ("layouts", "data", "message"),
    [
        ("[nn]", {"layout": "nt"}, "t: layout: got nt; cuda/mine supports nn only"),
        ("[nn]", {"layout": "n"}, 't: layout: got "n"; expected nn, nt, tn or tt, or a list'),
        ("[tx]", {}, 'header: layouts[0]: got "tx"; expected nn, nt, tn or tt'),
        ("[nn]", {"problems": {"cuda": [{"square": 8, "layout": "x"}]}}, "layout"),
    ],
)
def test_a_layout_that_nobody_can_have_is_an_error(tmp_path, layouts, data, message):
    with pytest.raises(InputError, match=re.escape(message)):
        campaign(tmp_path, layouts, **data)


def test_a_pattern_leaves_out_kernels_of_other_layouts():
    data = {
        "campaign": "t",
        "problems": {"cuda": [[8, 8, 8]]},
        "layout": "tn",
        "kernels": ["cuda/*"],
    }
    chosen = campaign_file.load(data, "t", ALL).kernels
    assert chosen
    assert all("tn" in each.layouts for each in chosen.values())


def test_the_constants_of_a_layout_stand_before_the_file_and_those_of_nn_nowhere(tmp_path):
    for suffix in (".cu", ".c"):
        mine = kernel(tmp_path, "[nn, nt, tn, tt]", suffix)
        for layout in LAYOUTS:
            before, _ = mine.source(Configuration("float32", (), layout=layout)).split("#line", 1)
            defined = re.findall(r"#define (TRANS_[AB]) (\d)", before)
            a, b = (str(int(letter == "t")) for letter in layout)
            assert defined == ([] if layout == "nn" else [("TRANS_A", a), ("TRANS_B", b)])
    with pytest.raises(InputError, match="layouts: got nn, nt; expected one, because PTX"):
        kernel(tmp_path / "ptx", suffix=".ptx")


def test_expressions_know_the_layout(tmp_path):
    text = HEADER.format("mine", "layouts: [nn, tn]\nparameters: {BM: 48}\n").replace(
        "block: [1]",
        "block: [32 + 32 * TRANS_A]\nrequires: [not TRANS_A or BM > 1]\n"
        "tensor_maps: [{of: A, box: [64 if TRANS_A else 8, 8], swizzle: 0}]",
    )
    mine = parse(written(tmp_path / "mine.cu", text))
    found = []
    for each, objection in mine.expand({}, ["float32"], layouts=LAYOUTS):
        (a,) = mine.maps(each, Problem(16, 24, 40, layout=each.layout).names())
        (_, block), *_ = mine.blocks(each.names())
        found.append((each.layout, objection, block[0], a.width, a.height, a.pitch, a.box[0]))
    assert found == [("nn", "", 32, 40, 16, 160, 8), ("tn", "", 64, 16, 40, 64, 64)]
    need = mine.unmet_need(each, Problem(16, 24, 40).names())
    assert need == "supports the layouts nn, tn only"


@pytest.fixture
def jobs(tmp_path, monkeypatch, gpus):
    """A measure job of a kernel for two layouts and of one for `nn`, on a problem in each."""
    square = {"cuda": [{"square": 24, "layout": ["nn", "nt"]}]}
    jobs = Jobs(tmp_path, monkeypatch, {"both": 2, "plain": 1}, problems=square)
    path = tmp_path / "kernels" / "cuda" / "both.cu"
    path.write_text(path.read_text().replace("block", "layouts: [nn, nt]\nblock"))
    return jobs


def test_each_binary_is_asked_about_problems_of_its_layout(jobs):
    rows = samples.read(jobs.sweep("both.float32", "plain.float32"))[0]
    found = {
        (row["kernel"], row["layout"], row["configuration"], row["status"], row["reason"])
        for row in rows
    }
    assert found == {
        *(("both", "nn", f"U={u}", "correct", "") for u in (1, 2)),
        *(("both", "nt", f"U={u} layout=nt", "correct", "") for u in (1, 2)),
        ("plain", "nn", "-", "correct", ""),
        ("plain", "nt", "-", "not_supported", UNSUPPORTED),
    }
    assert len(rows) == len(found)
    asked = {each.who for each in jobs.of(RunGauntlet) if each.request.layout == "nt"}
    assert asked == {(f"both U={u} layout=nt",) for u in (1, 2)}


def test_a_baseline_runs_the_gauntlet_in_each_layout(jobs):
    jobs.sweep("baselines.float32")
    asked = [each.request.layout for each in jobs.of(RunGauntlet) if each.who == ("cublas",)]
    assert sorted(asked) == ["nn", "nt"]


def test_finalists_are_confirmed_on_the_problem_of_their_layout(jobs):
    rows = jobs.confirm(jobs.sweep("both.float32", "plain.float32"))
    found = {(row["kernel"], row["layout"], "layout=nt" in row["configuration"]) for row in rows}
    assert found == {("both", "nn", False), ("both", "nt", True), ("plain", "nn", False)}


def test_tables_tell_layouts_apart_and_take_old_samples_for_nn():
    old, turned = row(), row(layout="nt", configuration="layout=nt")
    best = made([old, turned])
    assert best["problem"].tolist() == ["100", "100 layout=nt"]
    assert best["layout"].tolist() == ["nn", "nt"]
    # also where all problems have it
    assert made([turned])["problem"].tolist() == ["100 layout=nt"]


PRODUCT = "A[(size_t)i * lda + k] * B[(size_t)k * ldb + j]"
RIGHT = (
    "A[TRANS_A ? (size_t)k * lda + i : (size_t)i * lda + k] * "
    "B[TRANS_B ? (size_t)j * ldb + k : (size_t)k * ldb + j]"
)
LEFT_OUT = "the layout is left out: {} is read as if it were not transposed"


@pytest.mark.parametrize(
    ("layout", "product", "guess"),
    [
        ("nt", RIGHT, []),
        ("tn", RIGHT, []),
        ("tn", PRODUCT, [LEFT_OUT.format("A")]),
        ("nt", PRODUCT, [LEFT_OUT.format("B")]),
        ("tt", PRODUCT, [LEFT_OUT.format("A"), LEFT_OUT.format("B")]),
        ("tt", "A[k * lda + i] * B[k * ldb + j]", [LEFT_OUT.format("B")]),
        ("tn", "A[k * M + i] * B[k * ldb + j]", ["leading dimension: M is used instead of lda"]),
        (
            "tt",
            "A[k * ldb + i] * B[j * ldb + k]",
            ["leading dimension: ldb is used instead of lda"],
        ),
    ],
)
def test_on_the_cpu_a_fault_in_a_layout_is_found_and_told(tmp_path, layout, product, guess):
    """On squares, where nothing else than A and B is read."""
    header = f"layouts: [{layout}]\nneeds: [M == N and N == K]"
    header = f"/*---\ntitle: mine\nidea: planted by a test\n{header}\n---*/\n"
    path = written(tmp_path / "mine.c", header + PLAIN.replace(PRODUCT, product))
    configuration = Configuration("float32", (), layout=layout)
    (made,) = compile_kernel(parse(path), [(configuration, "")], "here", tmp_path, 1)
    candidate = Candidate("mine", configuration.label, str(path), str(tmp_path / made.binary))
    worker = Worker()
    worker.device = host()
    *_, verdict = worker.answers(RunGauntlet("float32", candidate, layout))
    assert verdict.status == ("incorrect" if guess else "correct"), verdict.reason
    square = Problem(20, 20, 20, padding="1,2,3", distribution="exact", layout=layout)
    (answer,) = worker.answers(Diagnose(square, candidate))
    assert guess in (answer.diagnosis["guesses"] if answer.diagnosis else [[]])
