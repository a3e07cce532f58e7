import re
from dataclasses import replace
from pathlib import Path

import pytest
from ladder.core.errors import InputError
from ladder.model import kernel_file
from ladder.model.kernel import Configuration, LaunchShape
from planted import ROOT, written

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
    kernel = kernel_file.parse(write(tmp_path, GOOD))
    legal = [c for c, objection in kernel.expand({}, ["float32"]) if not objection]
    refused = {c.label: objection for c, objection in kernel.expand({}, ["float32"]) if objection}
    assert refused == {"BM=16 BN=32": "requires BM >= BN", "BM=64 BN=32": "2048 threads a block; at most 1024"}
    assert [c.slug for c in legal] == ["float32-BM16-BN16", "float32-BM32-BN16", "float32-BM32-BN32", "float32-BM64-BN16"]
    configuration = Configuration("float16", (("BM", 32), ("BN", 16)))
    problem = {"M": 100, "N": 33, "K": 1, "lda": 1, "ldb": 33, "ldc": 33}
    assert kernel.launches(configuration, problem) == [LaunchShape("gemm", (3, 4, 1), (16, 32, 1), 32 * 16 * 2)]
    assert kernel.workspace_of(configuration, problem) is None
    assert kernel.unmet_need(configuration, problem) == "needs N % 4 == 0"
    assert kernel.unmet_need(configuration, problem | {"N": 32}) == ""


def test_a_configuration_that_is_older_than_a_parameter_is_as_the_header_says(tmp_path):
    kernel, problem = kernel_file.parse(write(tmp_path, GOOD)), {"M": 100, "N": 33, "K": 1}
    old, same = Configuration("float32", (("BN", 16),)), Configuration("float32", (("BM", 32), ("BN", 16)))
    assert kernel.launches(old, problem) == kernel.launches(same, problem)
    assert kernel.source(old) == kernel.source(same)
    assert kernel.blocks(old.names()) == kernel.blocks(same.names()) and kernel.objection(old) == kernel.objection(same) == ""


def test_a_configuration_says_how_it_is_compiled(tmp_path):
    kernel = kernel_file.parse(write(tmp_path, GOOD))
    builds = [(), (("compiler", "nvrtc"), ("maxrregcount", "64"))]
    first, second, *_ = [configuration for configuration, _ in kernel.expand({}, ["float32"], builds)]
    assert [(configuration.label, configuration.compiler, configuration.options) for configuration in (first, second)] == [
        ("BM=16 BN=16", "nvcc", []),
        ("BM=16 BN=16 compiler=nvrtc maxrregcount=64", "nvrtc", ["--maxrregcount=64"]),
    ]
    assert first.slug != second.slug
    assert Configuration.of("float32", second.label) == second
    assert first.names() == second.names()
    plain = kernel_file.parse(write(tmp_path, re.sub("block.*|grid.*|dynamic.*|element_types.*", "", GOOD), "cpu/20_test.c"))
    assert len(list(plain.expand({}, ["float32"], builds))) == 6


TENS = dict.fromkeys(("KC", "MC", "NC", "MR", "NR", "KU"), range(1, 11))
"""Lists of 1,000,000 configurations."""


def swept(folder, requires):
    header = f"parameters: {dict.fromkeys(TENS, 1)}\nrequires: {requires}\nelement_types: [float32, float64]\n"
    return kernel_file.parse(write(folder, f"/*---\ntitle: t\nidea: i\n{header}---*/\n", "cpu/20_test.c"))


@pytest.mark.parametrize("element_type", ["float32", "float64"])
def test_what_requires_forbids_does_not_count(tmp_path, element_type):
    kernel = swept(tmp_path, ["MC // (KC - 5) == 1 and NC == 2", "MR == NR and NR * element_size <= 16", "KU == MR"])
    expanded = list(kernel.expand(TENS, [element_type]))
    sizes = range(1, 5 if element_type == "float32" else 3)
    blocks = [(k, m) for k in TENS["KC"] for m in TENS["MC"] if k != 5 and m // (k - 5) == 1]  # what has no value is not allowed
    expected = [(k, m, 2, r, r, r) for k, m in blocks for r in sizes]
    assert [tuple(value for _, value in configuration.parameters) for configuration, _ in expanded] == expected
    assert {objection for _, objection in expanded} == {""}


def test_where_requires_allows_nothing_the_first_says_why(tmp_path):
    ((configuration, objection),) = swept(tmp_path, ["KC > 10"]).expand(TENS, ["float32"])
    assert (configuration.label, objection) == ("KC=1 MC=1 NC=1 MR=1 NR=1 KU=1", "requires KC > 10")


@pytest.mark.parametrize(
    ("requires", "builds", "message"),
    [
        (
            [],
            1,
            "make 1000000 configurations, of which `requires` allows more than 10000; expected no more: shorten a list, or name",
        ),
        (["KC * MC == 1"], 2, "make 2000000 configurations, of which `requires` allows more than 10000; "),
        (
            ["KC * KU == 100 and NC * MC * MR * NR == 10000"],
            1,
            "takes more than 200000 values; expected requirements on the first parameters",
        ),
    ],
)
def test_too_many_configurations_are_refused(tmp_path, requires, builds, message):
    kernel = replace(swept(tmp_path, requires), path=Path("20_test.cu"))
    with pytest.raises(InputError, match=re.escape(message)):
        list(kernel.expand(TENS, ["float32"], [(), (("compiler", "nvrtc"),)][:builds]))


def test_too_many_configurations_of_lists_in_assignments_are_refused(tmp_path):
    kernel = replace(swept(tmp_path, []), sweep={}, configurations=[TENS])
    with pytest.raises(InputError, match="configurations: the lists make more than 10000; expected no more: shorten one"):
        list(kernel.expand({}, ["float32"]))


def test_ten_thousand_configurations_are_taken(tmp_path):
    assert len(list(swept(tmp_path, ["KC * MC == 1"]).expand(TENS, ["float32"]))) == 10_000


def test_several_launches_and_a_workspace(tmp_path):
    more = "workspace: M * N * 4\nthen: [{function: reduce, grid: ['ceil_div(M * N, BM)'], block: [BM]}]\n---*/"
    kernel = kernel_file.parse(write(tmp_path, GOOD.replace("---*/", more)))
    configuration = Configuration("float32", (("BM", 32), ("BN", 16)))
    problem = {"M": 100, "N": 33, "K": 1, "lda": 1, "ldb": 33, "ldc": 33}
    assert kernel.workspace_of(configuration, problem) == 13200
    assert kernel.launches(configuration, problem)[1] == LaunchShape("reduce", (104, 1, 1), (32, 1, 1), 0)
    big = kernel_file.parse(write(tmp_path, GOOD.replace("---*/", more.replace("block: [BM]", "block: [BM, 64]"))))
    assert big.objection(configuration) == "2048 threads a block; at most 1024"


def test_a_launch_can_depend_on_the_problem_and_the_device(tmp_path):
    more = "then: [{function: reduce, grid: [sm_count], block: [BM], dynamic_shared: 4 * K, when: K > 8 * BN}]\n"
    more += "workspace: sm_count * BM\n---*/"
    text = GOOD.replace("BM * BN * element_size", "min(K * BM, shared_memory_per_block)").replace("---*/", more)
    text = text.replace("N % 4 == 0", "alignment % 16 == 0, shared_memory_per_block >= BM * 1024")
    kernel = kernel_file.parse(write(tmp_path, text))
    configuration = Configuration("float32", (("BM", 32), ("BN", 16)))
    given = {"M": 32, "N": 16, "K": 128, "lda": 128, "ldb": 16, "ldc": 16, "alignment": 16}
    given |= {"sm_count": 132, "shared_memory_per_block": 50000}
    assert kernel.launches(configuration, given) == [LaunchShape("gemm", (1, 1, 1), (16, 32, 1), 4096)]
    first, second = kernel.launches(configuration, given | {"K": 2000})
    assert first.dynamic_shared == 50000
    assert second == LaunchShape("reduce", (132, 1, 1), (32, 1, 1), 8000)
    assert kernel.workspace_of(configuration, given) == 132 * 32
    assert kernel.unmet_need(configuration, given) == ""
    assert kernel.unmet_need(configuration, given | {"alignment": 8}) == "needs alignment % 16 == 0"
    assert kernel.unmet_need(configuration, given | {"shared_memory_per_block": 4096}).startswith("needs shared_memory_per_block")


def test_names_stand_for_expressions_and_may_use_each_other(tmp_path):
    where = "where: {tiles: 'ceil_div(M, BM) * ceil_div(N, BN)', rest: tiles % sm_count}\n"
    where += "grid: [tiles, rest, 4 * clusters_of_4]\nworkspace: rest * 4\n"
    text = re.sub("grid: .*\n", where, GOOD).replace("N % 4 == 0", "rest > 1")
    kernel = kernel_file.parse(write(tmp_path, text))
    configuration = Configuration("float32", (("BM", 32), ("BN", 16)))
    given = {"M": 100, "N": 33, "sm_count": 7, "shared_memory_per_block": 50000, "clusters_of_4": 1}
    assert kernel.launches(configuration, given)[0].grid == (12, 5, 4)
    assert kernel.workspace_of(configuration, given) == 20
    assert kernel.unmet_need(configuration, given | {"sm_count": 6}) == "needs rest > 1"


@pytest.mark.parametrize(
    ("attributes", "clusters"),
    [
        ({"sm_count": 132, "compute_capability": "9.0", "clusters_of_4": 30}, 30),
        ({"sm_count": 132, "compute_capability": "9.0"}, 33),  # as in data older than the name
        ({"sm_count": 108, "compute_capability": "8.0"}, 0),
        ({"cores": 8}, None),
    ],
)
def test_data_without_the_clusters_has_the_most_that_there_can_be(attributes, clusters):
    assert kernel_file.device_names({"attributes": attributes}).get("clusters_of_4") == clusters


def test_a_precision_is_named_of_float32_kernels_only(tmp_path):
    text = GOOD.replace("element_types: [float32, float16]", "precision: tf32")
    assert kernel_file.parse(write(tmp_path, text)).precision == "tf32"
    assert kernel_file.parse(write(tmp_path, GOOD)).precision == ""
    assert kernel_file.discover(ROOT)["cuda/20_tensor_cores"].precision == "tf32"
    assert kernel_file.discover(ROOT)["cuda/21_tensor_split"].precision == ""
    with pytest.raises(InputError, match=r'20_test.cu: header: precision: got "tf32"; expected element_types to be \[float32\]'):
        kernel_file.parse(write(tmp_path, text.replace("sweep:", "element_types: [float64]\nsweep:")))
    with pytest.raises(InputError, match='precision: got "bf16"; expected tf32'):
        kernel_file.parse(write(tmp_path, text.replace("tf32", "bf16")))


def test_configurations_are_tried_beside_the_sweep_or_in_its_place(tmp_path):
    declared = "configurations: [{BM: 64}, {BM: 128, BN: 8}, {BM: 16, BN: 32}]\nrequires: [BM < 200]\n"
    beside = kernel_file.parse(write(tmp_path, GOOD.replace("requires: [BM >= BN]\n", declared)))
    labels = [c.label for c, _ in beside.expand({}, ["float32"])]
    assert labels[:6] == [f"BM={bm} BN={bn}" for bm in (16, 32, 64) for bn in (16, 32)]
    assert labels[6:] == ["BM=128 BN=8"]  # the others are of the product
    assert [c.label for c, _ in beside.expand({"BM": [32], "BN": [8]}, ["float32"])] == ["BM=32 BN=8"]
    alone = kernel_file.parse(write(tmp_path, beside.text.replace("sweep: {BM: [16, 32, 64], BN: [16, 32]}\n", "")))
    assert [c.label for c, _ in alone.expand({}, ["float32"])] == ["BM=64 BN=16", "BM=128 BN=8", "BM=16 BN=32"]
    lists = kernel_file.parse(write(tmp_path, alone.text.replace("{BM: 128, BN: 8}", "{BM: [128, 64], BN: [8, 16]}")))
    labels = [c.label for c, _ in lists.expand({}, ["float32"])]
    assert labels == ["BM=64 BN=16", "BM=128 BN=8", "BM=128 BN=16", "BM=64 BN=8", "BM=16 BN=32"]


def test_lists_of_the_campaign_replace_the_kernels_own(tmp_path):
    kernel = kernel_file.parse(write(tmp_path, GOOD))
    assert [c.label for c, _ in kernel.expand({"BM": [128]}, ["float32"])] == ["BM=128 BN=16", "BM=128 BN=32"]
    assert list(kernel.expand({}, ["float64"])) == []


def test_the_source_keeps_the_files_line_numbers(tmp_path):
    kernel = kernel_file.parse(write(tmp_path, GOOD))
    source = kernel.source(Configuration("float16", (("BM", 32), ("BN", 16)))).splitlines()
    assert source[:3] == ["#include <cuda_fp16.h>", "using T = __half;", "using Acc = float;"]
    brain = kernel.source(Configuration("bfloat16", (("BM", 32), ("BN", 16)))).splitlines()
    assert brain[:3] == ["#include <cuda_bf16.h>", "using T = __nv_bfloat16;", "using Acc = float;"]
    assert "constexpr int BM = 32;" in source
    assert source[source.index('#line 1 "20_test.cu"') + 1 :] == GOOD.splitlines()


def test_the_digest_covers_what_is_included(tmp_path):
    path = write(tmp_path, GOOD)
    header = tmp_path / "kernels" / "include" / "store.cuh"
    header.write_text('#include "deep.cuh"\n')
    (header.parent / "deep.cuh").write_text("// one\n")
    before = kernel_file.parse(path).digest
    (header.parent / "deep.cuh").write_text("// two\n")
    assert kernel_file.parse(path).digest != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("/*---", "/*"), "no header"),
        (("title: A kernel\n", ""), "missing key title"),
        (("idea:", "ideas:"), "unknown key 'ideas'"),
        (("BM: 32, BN: 16}", "BM: thirty, BN: 16}"), 'parameters.BM: got "thirty"; expected a whole number'),
        (("{BM: 32, BN: 16}", "{M: 32, BN: 16}"), "parameters.M: the name is taken"),
        (("{BM: 32, BN: 16}", "{C: 32, BN: 16}"), "parameters.C: the name is taken"),
        (("---*/", "---*/\n#ifndef BN\n#define BN 64\n#endif"), "line 14: got #define BN; expected no macro of this name"),
        (("sweep: {BM", "sweep: {BK: [1], BM"), "sweep.BK: no such parameter; known: BM, BN"),
        (("sweep: {BM: [16, 32, 64]", "sweep: {BM: []"), "sweep.BM: got []; expected a list"),
        (("needs:", "where: {sm_count: BM}\nneeds:"), "where.sm_count: the name is taken by the pipeline"),
        (("needs:", "where: {a: b, b: M}\nneeds:"), 'where.a: "b": unknown name b'),
        (("needs:", "where: {A: M}\nneeds:"), "expected a name of small letters, digits and underscores"),
        (("block: [BN, BM]", "where: {a: M}\nblock: [BN, a]"), 'block: "a": unknown name a'),
        (("sweep:", "configurations: [{BM: 8}, {BK: 1}]\nsweep:"), "configurations[1].BK: no such parameter; known: BM, BN"),
        (("sweep:", "configurations: [{BM: -8}]\nsweep:"), "configurations[0].BM: got -8; expected a whole number"),
        (
            ("sweep:", "configurations: [{BM: []}]\nsweep:"),
            "configurations[0].BM: got []; expected a whole number from 0 to 1000000, or a list",
        ),
        (
            ("needs:", "architecture: sm_90\nneeds:"),
            'architecture: got "sm_90"; expected an architecture of one compute capability',
        ),
        (("[BM >= BN]", "[shared_memory_per_block > BM]"), "unknown name shared_memory_per_block"),
        (
            ("needs:", "then: [{function: f, grid: [1], block: [1], when: Q > 1}]\nneeds:"),
            'then[0].when: "Q > 1": unknown name Q',
        ),
        (
            ("needs:", "then: [{function: f, grid: [1], block: [1], accesses: [{shared_read: z, per_k: 1}]}]\nneeds:"),
            'then[0].accesses: "z": unknown name z',
        ),
        (("[float32, float16]", "[half]"), 'element_types[0]: got "half"; expected float32, float64, float16 or bfloat16'),
        (("block: [BN, BM]", "block: [BN, BK]"), 'block: "BK": unknown name BK; known: BM, BN, element_size'),
        (("block: [BN, BM]", "block: [BN, M]"), "unknown name M"),
        (("block: [BN, BM]\n", ""), "missing key block or grid"),
        (("[BM >= BN]", "[\"__import__('os')\"]"), "is not allowed in an expression"),
        (("[N % 4 == 0]", "[N % 0]"), "modulo"),
        (("needs:", "accesses: [{shared_read: x + M * z, per_k: 1}]\nneeds:"), 'accesses: "x + M * z": unknown name z'),
        (("needs:", "accesses: [{shared_read: x}]\nneeds:"), "accesses[0]: missing key per_k"),
        (("needs:", "accesses: [{shared_read: x, global_read: x, per_k: 1}]\nneeds:"), "expected an access: one of"),
        (("title: A kernel", "title: A\ntitle: B"), "the key title is given twice"),
        (("title: A kernel", "title: [A"), "not valid YAML: while parsing a flow sequence\n  line 2, column 8\n"),
        ((GOOD.split("---")[1], "\n- a\n"), 'got ["a"]; expected a mapping of the keys that docs/header.md explains'),
        (("needs:", "then: [{function: f, grid: [Q], block: [1]}]\nneeds:"), 'then[0].grid: "Q": unknown name Q'),
        (("needs:", "then: [{grid: [M], block: [1]}]\nneeds:"), "then[0]: missing key function"),
    ],
)
def test_a_bad_header_is_named(tmp_path, change, message):
    with pytest.raises(InputError) as error:
        kernel_file.parse(write(tmp_path, GOOD.replace(*change)))
    assert message in str(error.value)
    assert "kernels/cuda/20_test.cu" in str(error.value)


@pytest.mark.parametrize(
    "key",
    [
        "element_types: [float16]",
        "element_types: [float32, bfloat16]",
        "grid: [1]",
        "tensor_maps: [{of: A, box: [1, 1], swizzle: 0}]",
    ],
)
def test_what_only_cuda_kernels_can_have_is_refused_of_others(tmp_path, key):
    path = write(tmp_path, f"/*---\ntitle: A\nidea: b\n{key}\n---*/\n", "cpu/20_test.c")
    message = rf"20_test\.c: header: {key.split(':')[0]}: got .*; expected CUDA kernels only to have it"
    with pytest.raises(InputError, match=message):
        kernel_file.parse(path)


def test_the_projects_own_kernels_have_models_and_legal_configurations():
    kernels = kernel_file.discover(ROOT)
    assert {"cuda/01_naive_uncoalesced", "cuda/05_register_tile", "cpu/03_blocked"} <= set(kernels)
    for kernel in kernels.values():
        assert kernel.global_reads
        assert kernel.objection(Configuration(kernel.element_types[0], tuple(kernel.parameters.items()))) == ""
        assert sum(not objection for _, objection in kernel.expand({}, kernel.element_types)) >= 1


def test_the_page_of_headers_explains_every_key():
    text = (ROOT / "docs" / "header.md").read_text()
    schema = (ROOT / "workflow" / "schemas" / "kernel.schema.yaml").read_text()
    keys = re.findall(r"^  (\w+):", schema.split("\nproperties:")[1], re.MULTILINE)
    assert [key for key in keys if f"`{key}`" not in text] == []


@pytest.mark.parametrize("where", ["cpu/a.c", "include/x.h"])
@pytest.mark.parametrize(
    "line",
    [
        "#include NAME",
        "  #  include NAME // a macro",
        '#/* why */include "y.h"',
        '/* why */ #include "y.h"',
        '# \\\ninclude "y.h"',
        '#include /* why */ "y.h"',
        '#include_next "y.h"',
        '#import "y.h"',
        '%:include "y.h"',
        'const char x[] = {\n#embed "y.h"\n};',
        '__asm__(".incbin \\"y.h\\"");',
    ],
)
def test_a_file_that_is_read_unseen_is_refused(tmp_path, line, where):
    text = "/*---\ntitle: t\n# include this: in words\nidea: i\n---*/\n/* a */ /* b */\n// #include NAME\n"
    path = write(tmp_path, text + '#include "x.h"\n#include <math.h>\n', "cpu/a.c")
    header = write(tmp_path, "#if 1\n#endif\n", "include/x.h")
    assert kernel_file.parse(path).includes == [header]
    file = tmp_path / "kernels" / where
    before = file.read_text()
    file.write_text(before + line + "\n")
    at = before.count("\n") + 1 + line.removesuffix("};").rstrip().count("\n")
    message = rf'{file}: line {at}: got .*; expected #include "\.\.\." or #include <\.\.\.> only, without a'
    with pytest.raises(InputError, match=message):
        kernel_file.parse(path)


def test_what_a_kernel_includes_is_found_however_it_is_written(tmp_path):
    include, outside = tmp_path / "kernels" / "include", tmp_path / "outside.h"
    (include / "sub").mkdir(parents=True)
    path = tmp_path / "kernels" / "cpu" / "a.c"
    path.parent.mkdir()
    texts = {
        include / "quoted.h": '#include "sub/inner.h"\n',
        include / "sub" / "inner.h": '#include "beside.h"\n',
        include / "sub" / "beside.h": "",
        include / "bracketed.h": "",
        outside: "",
    }
    for file, text in texts.items():
        file.write_text(text)
    path.write_text(
        f'/*---\ntitle: t\nidea: i\n---*/\n#include <stdio.h>\n# include "quoted.h"\n#include <bracketed.h>\n#include "{outside}"\n'
    )
    kernel = kernel_file.parse(path)
    assert set(kernel.includes) == set(texts)
    for file in texts:
        file.write_text("// changed\n")
        assert kernel_file.parse(path).digest != kernel.digest, file
        file.write_text(texts[file])


WHOLE = "/*---\ntitle: t\nidea: i\n---*/\n"


def test_what_is_no_kernel_stops_nothing(tmp_path):
    folder = tmp_path / "kernels" / "cpu"
    folder.mkdir(parents=True)
    texts = {
        "01_good.c": WHOLE,
        "02_mark.c": "\ufeff" + WHOLE,
        "03_bad.c": WHOLE.replace("idea", "ide"),
        "wip.c": "int main",
        "other.cpp": WHOLE,
        "notes.txt": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / ".#01_good.c").symlink_to("nobody@nowhere.1:2")  # as Emacs locks what it edits
    (folder / ".01_good.c.swp.c").write_text("")
    refused = {}
    kernels = kernel_file.discover(tmp_path, refused)
    assert list(kernels) == ["cpu/01_good", "cpu/02_mark"]
    assert kernels["cpu/02_mark"].text == WHOLE
    assert list(refused) == ["cpu/03_bad"]
    assert "03_bad.c: header: " in str(refused["cpu/03_bad"])
    lines = kernel_file.strays(tmp_path)
    named = [line.partition(": taken for no kernel; expected the suffix .c, and a comment")[0] for line in lines]
    assert named == [str(folder / "other.cpp"), str(folder / "wip.c")]


def test_a_comma_without_quotes_is_explained(tmp_path):
    path = written(tmp_path / "cuda" / "a.cu", WHOLE.replace("---*/", "block: [1]\ngrid: [ceil_div(N, 16), M]\n---*/"))
    with pytest.raises(InputError, match=r'with a comma is written in quotes: \["ceil_div\(N, BX\)", M\]'):
        kernel_file.parse(path)
