import re
from dataclasses import replace
from pathlib import Path

import pytest
from ladder.core.errors import InputError
from ladder.model import kernel_file
from ladder.model.kernel import Configuration, Kernel, LaunchShape
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


@pytest.fixture
def parsed(tmp_path):
    """Parses the good header after changes of (old, new) text."""

    def parse(*changes: tuple[str, str], name: str = "cuda/20_test.cu") -> Kernel:
        text = GOOD
        for old, new in changes:
            text = re.sub(old, lambda _, new=new: new, text)
        return kernel_file.parse(write(tmp_path, text, name))

    return parse


CONFIGURATION = Configuration("float32", (("BM", 32), ("BN", 16)))
GIVEN = {
    "M": 100,
    "N": 33,
    "K": 128,
    "lda": 128,
    "ldb": 33,
    "ldc": 33,
    "alignment": 16,
    "sm_count": 132,
    "shared_memory_per_block": 50000,
    "clusters_of_4": 1,
}


def labels(kernel, lists, *more):
    """The configurations that the kernel has of these lists, and what is objected to them."""
    return {each.label: objection for each, objection in kernel.expand(lists, ["float32"], *more)}


def test_a_header_is_read(parsed):
    kernel = parsed()
    assert labels(kernel, {}) == {
        "BM=16 BN=16": "",
        "BM=16 BN=32": "requires BM >= BN",
        "BM=32 BN=16": "",
        "BM=32 BN=32": "",
        "BM=64 BN=16": "",
        "BM=64 BN=32": "2048 threads a block; at most 1024",
    }
    half = Configuration("float16", CONFIGURATION.parameters)
    assert half.slug == "float16-BM32-BN16"
    assert kernel.launches(half, GIVEN) == [
        LaunchShape("gemm", (3, 4, 1), (16, 32, 1), 32 * 16 * 2)
    ]
    assert kernel.workspace_of(half, GIVEN) is None
    assert kernel.unmet_need(half, GIVEN) == "needs N % 4 == 0"
    assert kernel.unmet_need(half, GIVEN | {"N": 32}) == ""


def test_a_configuration_that_is_older_than_a_parameter_is_as_the_header_says(parsed):
    kernel, old = parsed(), Configuration("float32", (("BN", 16),))
    assert kernel.launches(old, GIVEN) == kernel.launches(CONFIGURATION, GIVEN)
    assert kernel.source(old) == kernel.source(CONFIGURATION)
    assert kernel.objection(old) == ""


def test_a_configuration_says_how_it_is_compiled(parsed):
    builds = [(), (("compiler", "nvrtc"), ("maxrregcount", "64"))]
    plain, other, *_ = [
        configuration for configuration, _ in parsed().expand({}, ["float32"], builds)
    ]
    assert plain.label == "BM=16 BN=16"
    assert (plain.compiler, plain.options) == ("nvcc", [])
    assert other.label == "BM=16 BN=16 compiler=nvrtc maxrregcount=64"
    assert (other.compiler, other.options) == ("nvrtc", ["--maxrregcount=64"])
    assert plain.slug != other.slug
    assert Configuration.of("float32", other.label) == other
    assert plain.names() == other.names()
    on_cpu = parsed(("block.*|grid.*|dynamic.*|element_types.*", ""), name="cpu/20_test.c")
    assert len(list(on_cpu.expand({}, ["float32"], builds))) == 6


TENS = dict.fromkeys(("KC", "MC", "NC", "MR", "NR", "KU"), range(1, 11))
"""Lists of 1,000,000 configurations."""


def swept(folder, requires):
    header = (
        f"parameters: {dict.fromkeys(TENS, 1)}\nrequires: {requires}\nelement_types: "
        "[float32, float64]\n"
    )
    return kernel_file.parse(
        write(folder, f"/*---\ntitle: t\nidea: i\n{header}---*/\n", "cpu/20_test.c")
    )


@pytest.mark.parametrize("element_type", ["float32", "float64"])
def test_what_requires_forbids_does_not_count(tmp_path, element_type):
    kernel = swept(
        tmp_path,
        ["MC // (KC - 5) == 1 and NC == 2", "MR == NR and NR * element_size <= 16", "KU == MR"],
    )
    expanded = list(kernel.expand(TENS, [element_type]))
    sizes = range(1, 5 if element_type == "float32" else 3)
    # what has no value is not allowed
    blocks = [(k, m) for k in TENS["KC"] for m in TENS["MC"] if k != 5 and m // (k - 5) == 1]
    expected = [(k, m, 2, r, r, r) for k, m in blocks for r in sizes]
    assert [
        tuple(value for _, value in configuration.parameters) for configuration, _ in expanded
    ] == expected
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
            "make 1000000 configurations, of which `requires` allows more than 10000; expected no "
            "more: shorten a list, or name",
        ),
        (
            ["KC * MC == 1"],
            2,
            "make 2000000 configurations, of which `requires` allows more than 10000; ",
        ),
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
    with pytest.raises(
        InputError,
        match="configurations: the lists make more than 10000; expected no more: shorten one",
    ):
        list(kernel.expand({}, ["float32"]))


def test_ten_thousand_configurations_are_taken(tmp_path):
    assert len(list(swept(tmp_path, ["KC * MC == 1"]).expand(TENS, ["float32"]))) == 10_000


def test_several_launches_and_a_workspace(parsed):
    then = "{function: reduce, grid: ['ceil_div(M * N, BM)'], block: [BM, 64]}"
    kernel = parsed(("---.*/", f"workspace: M * N * 4\nthen: [{then}]\n---*/"))
    assert kernel.workspace_of(CONFIGURATION, GIVEN) == 13200
    assert kernel.launches(CONFIGURATION, GIVEN)[1] == LaunchShape(
        "reduce", (104, 1, 1), (32, 64, 1), 0
    )
    assert kernel.objection(CONFIGURATION) == "2048 threads a block; at most 1024"


def test_a_launch_can_depend_on_the_problem_and_the_device(parsed):
    then = (
        "{function: reduce, grid: [sm_count], block: [BM], dynamic_shared: 4 * K, when: K > 8 * BN}"
    )
    kernel = parsed(
        ("BM . BN . element_size", "min(K * BM, shared_memory_per_block)"),
        ("N % 4 == 0", "alignment % 16 == 0, shared_memory_per_block >= BM * 1024"),
        ("---.*/", f"workspace: sm_count * BM\nthen: [{then}]\n---*/"),
    )
    assert [shape.dynamic_shared for shape in kernel.launches(CONFIGURATION, GIVEN)] == [4096]
    first, second = kernel.launches(CONFIGURATION, GIVEN | {"K": 2000})
    assert first.dynamic_shared == 50000
    assert second == LaunchShape("reduce", (132, 1, 1), (32, 1, 1), 8000)
    assert kernel.workspace_of(CONFIGURATION, GIVEN) == 132 * 32
    for change, need in (
        ({}, ""),
        ({"alignment": 8}, "needs alignment % 16 == 0"),
        ({"shared_memory_per_block": 4096}, "needs shared_memory_per_block >= BM * 1024"),
    ):
        assert kernel.unmet_need(CONFIGURATION, GIVEN | change) == need


def test_names_stand_for_expressions_and_may_use_each_other(parsed):
    where = "where: {tiles: 'ceil_div(M, BM) * ceil_div(N, BN)', rest: tiles % sm_count}\n"
    where += "grid: [tiles, rest, 4 * clusters_of_4]\nworkspace: rest * 4\n"
    kernel = parsed(("grid: .*\n", where), ("N % 4 == 0", "rest > 1"))
    given = GIVEN | {"sm_count": 7}
    assert kernel.launches(CONFIGURATION, given)[0].grid == (12, 5, 4)
    assert kernel.workspace_of(CONFIGURATION, given) == 20
    assert kernel.unmet_need(CONFIGURATION, given | {"sm_count": 6}) == "needs rest > 1"


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


def test_a_precision_is_named_of_float32_kernels_only(parsed):
    types = r"element_types: \[float32, float16\]"
    assert parsed((types, "precision: tf32")).precision == "tf32"
    assert parsed().precision == ""
    for header, message in (
        (
            "precision: tf32\nelement_types: [float64]",
            '"tf32"; expected element_types to be [float32]',
        ),
        ("precision: bf16", '"bf16"; expected tf32'),
    ):
        with pytest.raises(
            InputError, match=re.escape(f"20_test.cu: header: precision: got {message}")
        ):
            parsed((types, header))


def test_configurations_are_tried_beside_the_sweep_or_in_its_place(parsed):
    declared = (
        "configurations: [{BM: 64}, {BM: [128, 64], BN: [8, 16]}, {BM: 16, BN: "
        "32}]\nrequires: [BM < 200]\n"
    )
    changes = (r"requires: \[BM >= BN\]\n", declared), ("sweep: .*\n", "")
    beside, alone = parsed(changes[0]), parsed(*changes)
    own = ["BM=64 BN=16", "BM=128 BN=8", "BM=128 BN=16", "BM=64 BN=8", "BM=16 BN=32"]
    assert list(labels(alone, {})) == own
    swept = [f"BM={bm} BN={bn}" for bm in (16, 32, 64) for bn in (16, 32)]
    assert list(labels(beside, {})) == [*swept, *own[1:4]]  # the others are of the product
    # lists of the campaign replace the kernel's own
    assert list(labels(beside, {"BM": [32], "BN": [8]})) == ["BM=32 BN=8"]
    assert list(labels(parsed(), {"BM": [128]})) == ["BM=128 BN=16", "BM=128 BN=32"]


@pytest.mark.parametrize(
    ("element_type", "header", "name"),
    [("float16", "cuda_fp16.h", "__half"), ("bfloat16", "cuda_bf16.h", "__nv_bfloat16")],
)
def test_the_source_keeps_the_files_line_numbers(parsed, element_type, header, name):
    source = parsed().source(Configuration(element_type, CONFIGURATION.parameters)).splitlines()
    assert source[:3] == [f"#include <{header}>", f"using T = {name};", "using Acc = float;"]
    assert "constexpr int BM = 32;" in source
    assert source[source.index('#line 1 "20_test.cu"') + 1 :] == GOOD.splitlines()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("/*---", "/*", "no header"),
        ("title: A kernel\n", "", "missing key title"),
        ("idea:", "ideas:", "unknown key 'ideas'"),
        (
            "BM: 32, BN: 16}",
            "BM: thirty, BN: 16}",
            'parameters.BM: got "thirty"; expected a whole number',
        ),
        ("{BM: 32, BN: 16}", "{M: 32, BN: 16}", "parameters.M: the name is taken"),
        ("{BM: 32, BN: 16}", "{C: 32, BN: 16}", "parameters.C: the name is taken"),
        (
            "---*/",
            "---*/\n#ifndef BN\n#define BN 64\n#endif",
            "line 14: got #define BN; expected no macro of this name",
        ),
        ("sweep: {BM", "sweep: {BK: [1], BM", "sweep.BK: no such parameter; known: BM, BN"),
        ("sweep: {BM: [16, 32, 64]", "sweep: {BM: []", "sweep.BM: got []; expected a list"),
        (
            "needs:",
            "where: {sm_count: BM}\nneeds:",
            "where.sm_count: the name is taken by the pipeline",
        ),
        ("needs:", "where: {a: b, b: M}\nneeds:", 'where.a: "b": unknown name b'),
        (
            "needs:",
            "where: {A: M}\nneeds:",
            "expected a name of small letters, digits and underscores",
        ),
        ("block: [BN, BM]", "where: {a: M}\nblock: [BN, a]", 'block: "a": unknown name a'),
        (
            "sweep:",
            "configurations: [{BM: 8}, {BK: 1}]\nsweep:",
            "configurations[1].BK: no such parameter; known: BM, BN",
        ),
        (
            "sweep:",
            "configurations: [{BM: -8}]\nsweep:",
            "configurations[0].BM: got -8; expected a whole number",
        ),
        (
            "sweep:",
            "configurations: [{BM: []}]\nsweep:",
            "configurations[0].BM: got []; expected a whole number from 0 to 1000000, or a list",
        ),
        (
            "needs:",
            "architecture: sm_90\nneeds:",
            'architecture: got "sm_90"; expected an architecture of one compute capability',
        ),
        ("[BM >= BN]", "[shared_memory_per_block > BM]", "unknown name shared_memory_per_block"),
        (
            "needs:",
            "then: [{function: f, grid: [1], block: [1], when: Q > 1}]\nneeds:",
            'then[0].when: "Q > 1": unknown name Q',
        ),
        (
            "needs:",
            "then: [{function: f, grid: [1], block: [1], accesses: [{shared_read: z, per_k: "
            "1}]}]\nneeds:",
            'then[0].accesses: "z": unknown name z',
        ),
        (
            "[float32, float16]",
            "[half]",
            'element_types[0]: got "half"; expected float32, float64, float16 or bfloat16',
        ),
        (
            "block: [BN, BM]",
            "block: [BN, BK]",
            'block: "BK": unknown name BK; known: BM, BN, element_size',
        ),
        ("block: [BN, BM]", "block: [BN, M]", "unknown name M"),
        ("block: [BN, BM]\n", "", "missing key block or grid"),
        ("[BM >= BN]", "[\"__import__('os')\"]", "is not allowed in an expression"),
        ("[N % 4 == 0]", "[N % 0]", "modulo"),
        (
            "needs:",
            "accesses: [{shared_read: x + M * z, per_k: 1}]\nneeds:",
            'accesses: "x + M * z": unknown name z',
        ),
        ("needs:", "accesses: [{shared_read: x}]\nneeds:", "accesses[0]: missing key per_k"),
        (
            "needs:",
            "accesses: [{shared_read: x, global_read: x, per_k: 1}]\nneeds:",
            "expected an access: one of",
        ),
        ("title: A kernel", "title: A\ntitle: B", "the key title is given twice"),
        (
            "title: A kernel",
            "title: [A",
            "not valid YAML: while parsing a flow sequence\n  line 2, column 8\n",
        ),
        (
            GOOD.split("---")[1],
            "\n- a\n",
            'got ["a"]; expected a mapping of the keys that docs/header.md explains',
        ),
        (
            "needs:",
            "then: [{function: f, grid: [Q], block: [1]}]\nneeds:",
            'then[0].grid: "Q": unknown name Q',
        ),
        ("needs:", "then: [{grid: [M], block: [1]}]\nneeds:", "then[0]: missing key function"),
    ],
)
def test_a_bad_header_is_named(tmp_path, old, new, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        kernel_file.parse(write(tmp_path, GOOD.replace(old, new)))
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
    message = (
        rf"20_test\.c: header: {key.split(':')[0]}: got .*; expected CUDA kernels only to have it"
    )
    with pytest.raises(InputError, match=message):
        kernel_file.parse(path)


def test_the_projects_own_kernels_have_models_and_legal_configurations():
    for kernel in kernel_file.discover(ROOT).values():
        assert kernel.global_reads
        default = Configuration(kernel.element_types[0], tuple(kernel.parameters.items()))
        assert kernel.objection(default) == ""
        assert "" in [objection for _, objection in kernel.expand({}, kernel.element_types)]


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
    text = (
        "/*---\ntitle: t\n# include this: in words\nidea: i\n---*/\n/* a */ /* b */\n// "
        "#include NAME\n"
    )
    path = write(tmp_path, text + '#include "x.h"\n#include <math.h>\n', "cpu/a.c")
    header = write(tmp_path, "#if 1\n#endif\n", "include/x.h")
    assert kernel_file.parse(path).includes == [header]
    file = tmp_path / "kernels" / where
    before = file.read_text()
    file.write_text(before + line + "\n")
    at = before.count("\n") + 1 + line.removesuffix("};").rstrip().count("\n")
    message = (
        rf'{file}: line {at}: got .*; expected #include "\.\.\." or #include <\.\.\.> only, '
        rf"without a"
    )
    with pytest.raises(InputError, match=message):
        kernel_file.parse(path)


def test_what_a_kernel_includes_is_found_however_it_is_written(tmp_path):
    outside = written(tmp_path / "outside.h", "")
    texts = {
        "quoted.h": '#include "sub/inner.h"\n',
        "sub/inner.h": '#include "beside.h"\n',
        "sub/beside.h": "",
        "bracketed.h": "",
    }
    files = [written(tmp_path / "kernels" / "include" / name, text) for name, text in texts.items()]
    lines = (
        f'#include <stdio.h>\n# include "quoted.h"\n#include <bracketed.h>\n#include "{outside}"\n'
    )
    path = write(tmp_path, f"/*---\ntitle: t\nidea: i\n---*/\n{lines}", "cpu/a.c")
    kernel = kernel_file.parse(path)
    assert set(kernel.includes) == {*files, outside}
    for file in kernel.includes:
        text = file.read_text()
        file.write_text("// changed\n")
        assert kernel_file.parse(path).digest != kernel.digest, file
        file.write_text(text)


WHOLE = "/*---\ntitle: t\nidea: i\n---*/\n"


def test_what_is_no_kernel_stops_nothing(tmp_path):
    texts = {
        "01_good.c": WHOLE,
        "02_mark.c": "\ufeff" + WHOLE,
        "03_bad.c": WHOLE.replace("idea", "ide"),
        "wip.c": "int main",
        "other.cpp": WHOLE,
        "notes.txt": "",
        ".01_good.c.swp.c": "",
    }
    files = {name: write(tmp_path, text, f"cpu/{name}") for name, text in texts.items()}
    lock = files["01_good.c"].with_name(".#01_good.c")
    lock.symlink_to("nobody@nowhere.1:2")  # as Emacs locks what it edits
    refused = {}
    kernels = kernel_file.discover(tmp_path, refused)
    assert list(kernels) == ["cpu/01_good", "cpu/02_mark"]
    assert kernels["cpu/02_mark"].text == WHOLE
    assert list(refused) == ["cpu/03_bad"]
    assert "03_bad.c: header: " in str(refused["cpu/03_bad"])
    for name, line in zip(("other.cpp", "wip.c"), kernel_file.strays(tmp_path), strict=True):
        assert line.startswith(
            f"{files[name]}: taken for no kernel; expected the suffix .c, and a comment"
        )


def test_a_comma_without_quotes_is_explained(tmp_path):
    path = written(
        tmp_path / "cuda" / "a.cu",
        WHOLE.replace("---*/", "block: [1]\ngrid: [ceil_div(N, 16), M]\n---*/"),
    )
    with pytest.raises(
        InputError, match=r'with a comma is written in quotes: \["ceil_div\(N, BX\)", M\]'
    ):
        kernel_file.parse(path)
