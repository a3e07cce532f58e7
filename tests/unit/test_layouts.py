"""Matrices that lie in memory transposed: what a campaign asks for, what each kernel is compiled for
and asked, and how tables tell the layouts apart.
"""

import re

import pytest
from host import host
from jobs import HEADER, Jobs
from ladder.compiling.compile import compile_kernel
from ladder.core import yaml_schema
from ladder.core.errors import InputError
from ladder.core.types import LAYOUTS
from ladder.measuring.protocol import Candidate, Diagnose, Load, RunGauntlet
from ladder.measuring.worker import Worker
from ladder.model import campaign_file
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import parse
from ladder.model.problem import Problem
from ladder.storage import samples
from planted import HOME, written
from rows import made, row
from rungs import ALL
from trying import PLAIN

UNSUPPORTED = "supports the layouts nn only"


@pytest.mark.parametrize(
    ("layout", "shapes", "leading"),
    [
        ("nn", [(5, 7), (7, 6), (5, 6)], (8, 8, 9)),
        ("nt", [(5, 7), (6, 7), (5, 6)], (8, 9, 9)),
        ("tn", [(7, 5), (7, 6), (5, 6)], (6, 8, 9)),
        ("tt", [(7, 5), (6, 7), (5, 6)], (6, 9, 9)),
    ],
)
def test_a_transposed_matrix_has_its_rows_in_memory(layout, shapes, leading):
    problem = Problem(5, 6, 7, padding="1,2,3", layout=layout)
    assert problem.shapes == shapes
    assert (problem.lda, problem.ldb, problem.ldc) == leading
    assert problem.label == "5x6x7 padding=1,2,3" + f" layout={layout}" * (layout != "nn")
    assert problem.bytes == Problem(5, 6, 7, padding="1,2,3").bytes + 4 * (
        sum(rows * ld for (rows, _), ld in zip(shapes, leading, strict=True)) - 5 * 8 - 7 * 8 - 45
    )


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
    configurations = [each for each, _ in made.configurations["cuda/mine"]]
    assert [each.label for each in configurations] == compiled
    assert [Configuration.of("float32", each.label) for each in configurations] == configurations
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
    data = {"campaign": "t", "problems": {"cuda": [{"square": 8, "layout": "tn"}]}}
    chosen = campaign_file.load(data | {"kernels": ["cuda/*"]}, "t", ALL).kernels
    assert chosen
    assert {layout in each.layouts for each in chosen.values() for layout in ("tn",)} == {True}


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
    text = HEADER.format(
        "mine",
        "layouts: [nn, tn]\nparameters: {BM: 48}\n"
        "requires: [BM % 64 == 0 or not TRANS_A]\n"
        "needs: [TRANS_A or K > 1]\ntensor_maps: [{of: A, box: [64 if TRANS_A else 8, 8], swizzle: 0}]\n",
    )
    mine = parse(
        written(tmp_path / "mine.cu", text.replace("block: [1]", "block: [32 + 32 * TRANS_A]"))
    )
    plain, turned = (each for each, _ in mine.expand({}, ["float32"], layouts=LAYOUTS))
    assert (plain.layout, turned.layout) == ("nn", "tn")
    assert (mine.objection(plain), mine.objection(turned)) == (
        "",
        "requires BM % 64 == 0 or not TRANS_A",
    )
    assert [mine.blocks(each.names())[0][1][0] for each in (plain, turned)] == [32, 64]
    (of_plain,), (of_turned,) = (
        mine.maps(each, Problem(16, 24, 40, layout=each.layout).names()) for each in (plain, turned)
    )
    assert (of_plain.width, of_plain.height, of_plain.pitch, of_plain.box[0]) == (40, 16, 160, 8)
    assert (of_turned.width, of_turned.height, of_turned.pitch, of_turned.box[0]) == (
        16,
        40,
        64,
        64,
    )
    given = Problem(16, 24, 1, layout="tn").names()
    assert mine.unmet_need(turned, given) == ""
    assert mine.unmet_need(plain, given) == "supports the layouts nn, tn only"


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
    asked = {(each.who, each.request.layout) for each in jobs.of(RunGauntlet)}
    assert asked == {
        *(((f"both U={u}",), "nn") for u in (1, 2)),
        *(((f"both U={u} layout=nt",), "nt") for u in (1, 2)),
        (("plain",), "nn"),
    }
    assert not [each for each in jobs.of(Load) if each.who == ("plain",)][2:]  # exact, then timed


def test_a_baseline_runs_the_gauntlet_in_each_layout(jobs):
    rows = samples.read(jobs.sweep("baselines.float32"))[0]
    assert {(row["layout"], row["status"]) for row in rows if row["kernel"] == "cublas"} == {
        ("nn", "correct"),
        ("nt", "correct"),
    }
    asked = [each.request.layout for each in jobs.of(RunGauntlet) if each.who == ("cublas",)]
    assert sorted(asked) == ["nn", "nt"]


def test_finalists_are_confirmed_on_the_problem_of_their_layout(jobs):
    path = jobs.sweep("both.float32", "plain.float32", "baselines.float32")
    rows = jobs.confirm(path)
    of_kernels = {(row["kernel"], row["layout"]) for row in rows if row["kernel"] != "cublas"}
    assert {("both", "nn"), ("both", "nt"), ("plain", "nn")} <= of_kernels
    assert ("plain", "nt") not in of_kernels
    assert all(
        ("layout=nt" in row["configuration"]) == (row["layout"] == "nt")
        for row in rows
        if row["kernel"] == "both"
    )


def test_tables_tell_layouts_apart_and_take_old_samples_for_nn():
    old, turned = row(), row(layout="nt", configuration="layout=nt")
    best = made([old, turned])
    assert best["problem"].tolist() == ["100", "100 layout=nt"]
    assert best["layout"].tolist() == ["nn", "nt"]
    # also where all problems have it
    assert made([turned])["problem"].tolist() == ["100 layout=nt"]


@pytest.mark.parametrize(("name", "layouts"), [("layouts", LAYOUTS), ("llm", ("nt",))])
def test_the_campaigns_of_layouts_ask_each_16_bit_rung_in_each_of_theirs(name, layouts):
    data = yaml_schema.load((HOME / "config" / f"{name}.yaml").read_text(), name)
    asked = campaign_file.load(data, name, ALL)
    assert {problem.layout for problem in asked.problems("cuda", "bfloat16")} == set(layouts)
    rungs = [each for each in ALL.values() if re.match("cuda/(3[0-9]|4[0-3])_", each.id)]
    assert len(rungs) == 14
    for rung in rungs:
        legal = [each for each, objection in asked.configurations[rung.id] if not objection]
        assert {each.layout for each in legal} == set(layouts)
    # about as much as the campaign `half`, or less
    half = campaign_file.load(
        yaml_schema.load((HOME / "config" / "half.yaml").read_text(), "half"), "half", ALL
    )
    us, most = (sum(part.us for part in each.parts["cuda"].values()) for each in (asked, half))
    assert us < most


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
    assert f"layout={layout}" in verdict.reason or not guess
    square = Problem(20, 20, 20, padding="1,2,3", distribution="exact", layout=layout)
    (answer,) = worker.answers(Diagnose(square, candidate))
    assert guess in (answer.diagnosis["guesses"] if answer.diagnosis else [[]])
    for operands in worker.small.values():
        host().free(operands)
