import re
from pathlib import Path

import pytest
from ladder import kernels
from ladder.kernels import Configuration
from ladder.units import InputError
from planted import ROOT

GOOD = """/*---
title: A kernel
idea: an idea
parameters: {BM: 32, BN: 16}
sweep: {BM: [16, 32, 64], BN: [16, 32]}
element_types: [float32, float16]
block: [BN, BM]
grid: ["ceil_div(N, BN)", "ceil_div(M, BM)"]
dynamic_shared: BM * BN * element_size
requires: [BM >= BN]
needs: [N % 4 == 0]
---*/
#include "store.cuh"
"""


def write(folder: Path, text: str, name: str = "cuda/20_test.cu") -> Path:
    path = folder / "kernels" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (folder / "kernels" / "include").mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_header_is_read(tmp_path):
    kernel = kernels.parse(write(tmp_path, GOOD))
    legal = [c for c, objection in kernel.expand({}, ["float32"]) if not objection]
    refused = {c.label: objection for c, objection in kernel.expand({}, ["float32"]) if objection}
    assert refused == {"BM=16 BN=32": "requires BM >= BN", "BM=64 BN=32": "2048 threads a block; at most 1024"}
    assert [c.slug for c in legal] == ["float32-BM16-BN16", "float32-BM32-BN16", "float32-BM32-BN32", "float32-BM64-BN16"]
    configuration = Configuration("float16", (("BM", 32), ("BN", 16)))
    problem = {"M": 100, "N": 33, "K": 1, "lda": 1, "ldb": 33, "ldc": 33}
    assert kernel.launches(configuration, problem) == [kernels.LaunchShape("gemm", (3, 4, 1), (16, 32, 1), 32 * 16 * 2)]
    assert kernel.workspace_of(configuration, problem) is None
    assert kernel.unmet_need(configuration, problem) == "needs N % 4 == 0"
    assert kernel.unmet_need(configuration, problem | {"N": 32}) == ""


def test_several_launches_and_a_workspace(tmp_path):
    more = "workspace: M * N * 4\nthen: [{function: reduce, grid: ['ceil_div(M * N, BM)'], block: [BM]}]\n---*/"
    kernel = kernels.parse(write(tmp_path, GOOD.replace("---*/", more)))
    configuration = Configuration("float32", (("BM", 32), ("BN", 16)))
    problem = {"M": 100, "N": 33, "K": 1, "lda": 1, "ldb": 33, "ldc": 33}
    assert kernel.workspace_of(configuration, problem) == 13200
    assert kernel.launches(configuration, problem)[1] == kernels.LaunchShape("reduce", (104, 1, 1), (32, 1, 1), 0)
    big = kernels.parse(write(tmp_path, GOOD.replace("---*/", more.replace("block: [BM]", "block: [BM, 64]"))))
    assert big.objection(configuration) == "2048 threads a block; at most 1024"


def test_lists_of_the_campaign_replace_the_kernels_own(tmp_path):
    kernel = kernels.parse(write(tmp_path, GOOD))
    assert [c.label for c, _ in kernel.expand({"BM": [128]}, ["float32"])] == ["BM=128 BN=16", "BM=128 BN=32"]
    assert list(kernel.expand({}, ["float64"])) == []


def test_the_source_keeps_the_files_line_numbers(tmp_path):
    kernel = kernels.parse(write(tmp_path, GOOD))
    source = kernel.source(Configuration("float16", (("BM", 32), ("BN", 16)))).splitlines()
    assert source[:3] == ["#include <cuda_fp16.h>", "using T = __half;", "using Acc = float;"]
    assert "constexpr int BM = 32;" in source
    assert source[source.index('#line 1 "20_test.cu"') + 1 :] == GOOD.splitlines()


def test_the_digest_covers_what_is_included(tmp_path):
    path = write(tmp_path, GOOD)
    header = tmp_path / "kernels" / "include" / "store.cuh"
    header.write_text('#include "deep.cuh"\n')
    (header.parent / "deep.cuh").write_text("// one\n")
    before = kernels.parse(path).digest
    (header.parent / "deep.cuh").write_text("// two\n")
    assert kernels.parse(path).digest != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("/*---", "/*"), "no header"),
        (("title: A kernel\n", ""), "missing key title"),
        (("idea:", "ideas:"), "unknown key 'ideas'"),
        (("BM: 32, BN: 16}", "BM: thirty, BN: 16}"), 'parameters.BM: got "thirty"; expected a whole number'),
        (("{BM: 32, BN: 16}", "{M: 32, BN: 16}"), "parameters.M: the name is taken"),
        (("sweep: {BM", "sweep: {BK: [1], BM"), "sweep.BK: no such parameter; known: BM, BN"),
        (("sweep: {BM: [16, 32, 64]", "sweep: {BM: []"), "sweep.BM: got []; expected a list"),
        (("[float32, float16]", "[bfloat16]"), 'element_types[0]: got "bfloat16"; expected float32, float64 or float16'),
        (("block: [BN, BM]", "block: [BN, BK]"), 'block: "BK": unknown name BK; known: BM, BN, element_size'),
        (("block: [BN, BM]", "block: [BN, M]"), "unknown name M"),
        (("block: [BN, BM]\n", ""), "missing key block or grid"),
        (("[BM >= BN]", "[\"__import__('os')\"]"), "is not allowed in an expression"),
        (("[N % 4 == 0]", "[N % 0]"), "modulo"),
        (("needs:", "accesses: [{shared_read: x + M * z, per_k: 1}]\nneeds:"), 'accesses: "x + M * z": unknown name z'),
        (("needs:", "accesses: [{shared_read: x}]\nneeds:"), "accesses[0]: missing key per_k"),
        (("needs:", "accesses: [{shared_read: x, global_read: x, per_k: 1}]\nneeds:"), "expected an access: one of"),
        (("title: A kernel", "title: A\ntitle: B"), "the key title is given twice"),
        (("title: A kernel", "title: [A"), "not valid YAML"),
        (("needs:", "then: [{function: f, grid: [Q], block: [1]}]\nneeds:"), 'then[0].grid: "Q": unknown name Q'),
        (("needs:", "then: [{grid: [M], block: [1]}]\nneeds:"), "then[0]: missing key function"),
    ],
)
def test_a_bad_header_is_named(tmp_path, change, message):
    with pytest.raises(InputError) as error:
        kernels.parse(write(tmp_path, GOOD.replace(*change)))
    assert message in str(error.value)
    assert "kernels/cuda/20_test.cu" in str(error.value)


def test_the_projects_own_kernels_have_models_and_legal_configurations():
    found = kernels.discover(ROOT)
    assert {"cuda/01_naive_uncoalesced", "cuda/05_register_tile", "cpu/03_blocked"} <= set(found)
    for kernel in found.values():
        assert kernel.global_reads
        default = Configuration(kernel.element_types[0], tuple(kernel.parameters.items()))
        assert kernel.objection(default) == ""
        assert sum(not objection for _, objection in kernel.expand({}, ["float32"])) >= 1


def test_the_readme_of_headers_explains_every_key():
    text = (ROOT / "config" / "README.md").read_text()
    schema = (ROOT / "workflow" / "schemas" / "kernel.schema.yaml").read_text()
    assert [
        key for key in re.findall(r"^  (\w+):", schema.split("\nproperties:")[1], re.MULTILINE) if f"`{key}`" not in text
    ] == []
