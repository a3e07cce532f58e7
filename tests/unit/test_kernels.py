import re
from dataclasses import replace
from pathlib import Path

import pytest
from ladder.core.errors import InputError
from ladder.model import kernel_file
from ladder.model.kernel import Configuration, Kernel, LaunchShape
from planted import HOME, written

PLAIN = "/*---\ntitle: t\nidea: i\n---*/\n"
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


@pytest.fixture
def parsed(tmp_path):
    """Parses the good header after changes of (old, new) text."""

    def parse(*changes: tuple[str, str], name: str = "cuda/20_test.cu") -> Kernel:
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return kernel_file.parse(written(tmp_path / "kernels" / name, text))

    return parse


CONFIGURATION = Configuration("float32", (("BM", 32), ("BN", 16)))
NVRTC = (("compiler", "nvrtc"), ("maxrregcount", "64"))
GIVEN = {
    "M": 100,
    "N": 33,
    "K": 128,
    "alignment": 16,
    "sm_count": 132,
    "shared_memory_per_block": 50000,
}


def labels(kernel, lists, element_type="float32", builds=((),)):
    """The configurations that the kernel has of these lists, and what is objected to them."""
    expanded = kernel.expand(lists, [element_type], builds)
    return {each.label: objection for each, objection in expanded}


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
    (shape,) = kernel.launches(half, GIVEN)
    assert shape == LaunchShape("gemm", (3, 4, 1), (16, 32, 1), 32 * 16 * 2)
    assert kernel.workspace_of(half, GIVEN) is None
    assert kernel.unmet_need(half, GIVEN) == "needs N % 4 == 0"
    assert kernel.unmet_need(half, GIVEN | {"N": 32}) == ""


def test_a_configuration_that_is_older_than_a_parameter_is_as_the_header_says(parsed):
    kernel, old = parsed(), Configuration("float32", (("BN", 16),))
    assert kernel.launches(old, GIVEN) == kernel.launches(CONFIGURATION, GIVEN)
    assert kernel.source(old) == kernel.source(CONFIGURATION)
    assert kernel.objection(old) == ""


def test_a_configuration_says_how_it_is_compiled(parsed):
    other = replace(CONFIGURATION, build=NVRTC)
    assert other.label == "BM=32 BN=16 compiler=nvrtc maxrregcount=64"
    assert Configuration.of("float32", other.label) == other
    assert other.slug == "float32-BM32-BN16-compilernvrtc-maxrregcount64"
    assert (other.compiler, other.options) == ("nvrtc", ["--maxrregcount=64"])
    assert len(labels(parsed(), {}, builds=[(), NVRTC])) == 12


TENS = dict.fromkeys(("KC", "MC", "NC", "MR", "NR", "KU"), range(1, 11))
"""Lists of 1,000,000 configurations."""


def swept(folder, requires):
    types = "element_types: [float32, float64]"
    header = f"parameters: {dict.fromkeys(TENS, 1)}\nrequires: {requires}\n{types}\n---*/"
    return kernel_file.parse(
        written(folder / "kernels/cpu/20_test.c", PLAIN.replace("---*/", header))
    )


@pytest.mark.parametrize(("element_type", "most"), [("float32", 4), ("float64", 2)])
def test_what_requires_forbids_does_not_count(tmp_path, element_type, most):
    """Nor what has no value, such as KC = 5."""
    requires = ["MC // (KC - 5) == 9 and NC == 2", "MR == NR and NR * element_size <= 16"]
    kernel = swept(tmp_path, [*requires, "KU == MR"])
    sizes = range(1, most + 1)
    expected = {f"KC=6 MC=9 NC=2 MR={size} NR={size} KU={size}": "" for size in sizes}
    assert labels(kernel, TENS, element_type) == expected


def test_where_requires_allows_nothing_the_first_says_why(tmp_path):
    kernel = swept(tmp_path, ["KC > 10"])
    assert labels(kernel, TENS) == {"KC=1 MC=1 NC=1 MR=1 NR=1 KU=1": "requires KC > 10"}


@pytest.mark.parametrize(
    ("requires", "builds", "declared", "count"),
    [
        ([], [()], [], 1000000),
        (["KC * MC == 1"], [(), NVRTC], [], 20000),
        (["KC * KU == 100 and NC * MC * MR * NR == 10000"], [()], [], 1000000),
        ([], [()], [TENS], 10001),
    ],
)
def test_too_many_configurations_are_refused(tmp_path, requires, builds, declared, count):
    kernel = replace(swept(tmp_path, requires), path=Path("20_test.cu"), configurations=declared)
    with pytest.raises(InputError, match=f"make {count} configurations or more; expected at"):
        labels(kernel, {} if declared else TENS, builds=builds)


def test_ten_thousand_configurations_are_taken(tmp_path):
    assert len(labels(swept(tmp_path, ["KC * MC == 1"]), TENS)) == 10_000


def test_launches_and_a_workspace_depend_on_the_problem_and_the_device(parsed):
    where = "where: {tiles: 'ceil_div(M, BM) * ceil_div(N, BN)', rest: tiles % sm_count}\n"
    then = "[{function: f, grid: [rest], block: [BM, 64], dynamic_shared: 4 * K, when: K > 8 * BN}]"
    kernel = parsed(
        ("BM * BN * element_size", "min(K * BM, shared_memory_per_block)"),
        ("N % 4 == 0", "alignment % 16 == 0, rest > 1"),
        ("needs:", f"{where}workspace: sm_count * BM\nthen: {then}\nneeds:"),
    )
    assert [shape.dynamic_shared for shape in kernel.launches(CONFIGURATION, GIVEN)] == [4096]
    first, second = kernel.launches(CONFIGURATION, GIVEN | {"K": 2000})
    assert first.dynamic_shared == 50000
    assert second == LaunchShape("f", (12, 1, 1), (32, 64, 1), 8000)
    assert kernel.workspace_of(CONFIGURATION, GIVEN) == 132 * 32
    assert kernel.objection(CONFIGURATION) == "2048 threads a block; at most 1024"
    for change, need in (
        ({}, ""),
        ({"alignment": 8}, "needs alignment % 16 == 0"),
        ({"sm_count": 6}, "needs rest > 1"),
    ):
        assert kernel.unmet_need(CONFIGURATION, GIVEN | change) == need


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


def test_configurations_are_tried_beside_the_sweep_or_in_its_place(parsed):
    declared = "configurations: [{BM: 64}, {BM: [128, 64], BN: [8, 16]}, {BM: 16, BN: 32}]\n"
    changes = (
        ("requires: [BM >= BN]\n", declared),
        ("sweep: {BM: [16, 32, 64], BN: [16, 32]}\n", ""),
    )
    beside, alone = parsed(changes[0]), parsed(*changes)
    own = ["BM=64 BN=16", "BM=128 BN=8", "BM=128 BN=16", "BM=64 BN=8", "BM=16 BN=32"]
    assert list(labels(alone, {})) == own
    product = [f"BM={bm} BN={bn}" for bm in (16, 32, 64) for bn in (16, 32)]
    assert list(labels(beside, {})) == [*product, *own[1:4]]  # the others are of the product
    # lists of the campaign replace the kernel's own
    assert list(labels(beside, {"BM": [8]})) == ["BM=8 BN=16", "BM=8 BN=32"]


@pytest.mark.parametrize(
    ("element_type", "header", "name"),
    [("float16", "cuda_fp16.h", "__half"), ("bfloat16", "cuda_bf16.h", "__nv_bfloat16")],
)
def test_the_source_keeps_the_files_line_numbers(parsed, element_type, header, name):
    source = parsed().source(Configuration(element_type, CONFIGURATION.parameters))
    before, _, text = source.partition('#line 1 "20_test.cu"\n')
    lines = [f"#include <{header}>", f"using T = {name};", "using Acc = float;"]
    assert before.splitlines() == [*lines, "constexpr int BM = 32;", "constexpr int BN = 16;"]
    assert text == GOOD


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("/*---", "/*", "no header"),
        ("title: A kernel\n", "", "missing key title; expected a mapping of the keys that docs/"),
        ("idea:", "ideas:", "unknown key 'ideas'; did you mean `idea`?"),
        ("BM: 32,", "BM: x,", 'parameters.BM: got "x"; expected a whole number'),
        ("{BM: 32,", "{M: 32,", 'parameters: got "M"; expected a name of capitals'),
        ("---*/", "---*/\n#define BN 64", "line 13: got #define BN; expected no macro of this"),
        ("sweep: {BM", "sweep: {BK: [1], BM", "sweep.BK: no such parameter; known: BM, BN"),
        ("sweep:", "configurations: [{BK: 1}]\nsweep:", "configurations[0].BK: no such parameter"),
        ("sweep:", "configurations: [{BM: []}]\nsweep:", "got []; expected a whole number from 0"),
        ("needs:", "where: {sm_count: 1}\nneeds:", 'where: got "sm_count"; expected a name of'),
        ("needs:", "where: {a: b, b: M}\nneeds:", "where.a: expression `b`: unknown name b"),
        (
            "[BN, BM]",
            "[BN, M]",
            "block: expression `M`: unknown name M; known: BM, BN, TRANS_A, TRANS_B, element",
        ),
        ("[BM >= BN]", "[K > BM]", "requires: expression `K > BM`: unknown name K"),
        ("needs:", "then: [{grid: [M], block: [1]}]\nneeds:", "then[0]: missing key function"),
        (
            "needs:",
            "then: [{function: f, grid: [1], block: [1], when: M < 9 and Q > 1}]\nneeds:",
            "then[0].when: expression `M < 9 and Q > 1`: unknown name Q",
        ),
        ("block: [BN, BM]\n", "", "missing key block or grid"),
        ("[BM >= BN]", "[\"__import__('os')\"]", "is not allowed in an expression"),
        ("[N % 4 == 0]", "[N % 0]", "modulo"),
        ("needs:", "accesses: [{shared_read: x + z, per_k: 1}]\nneeds:", "unknown name z"),
        ("needs:", "accesses: [{shared_read: x, global_read: x, per_k: 1}]\nneeds:", "one of glob"),
        ("title: A kernel", "title: A\ntitle: B", "the key title is given twice\n  line 2, column"),
        (GOOD.split("---")[1], "\n- a\n", 'got ["a"]; expected a mapping of the keys that docs/'),
        ('["ceil_div(N, BN)"', "[ceil_div(N, BN)", "one with a comma is written in quotes"),
        ("needs:", "precision: tf32\nneeds:", "expected [float32], because of `precision`"),
        ("needs:", "precision: fast_accum\nneeds:", "expected a type of 8 bits, because of `pre"),
        ("needs:", "rival: true\nbuilds_on: x\nneeds:", "expected none, because a rival is no"),
        ("needs:", "multiples: [K]\nneeds:", 'got ["K"]; expected only kernels in .py to have it'),
    ],
)
def test_a_bad_header_is_named(parsed, old, new, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        parsed((old, new))
    assert "kernels/cuda/20_test.cu: " in str(error.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("element_types: [float32, bfloat16]", "bfloat16; expected float32 or float64 in a CPU"),
        ("grid: [1]", r"\[1\]; expected only kernels in .cu or .ptx or .py to have it"),
    ],
)
def test_what_only_cuda_kernels_can_have_is_refused_of_others(tmp_path, key, message):
    path = written(tmp_path / "cpu/20_test.c", PLAIN.replace("---*/", f"{key}\n---*/"))
    with pytest.raises(
        InputError, match=f"20_test.c: header: {key.split(':')[0]}: got .*{message}"
    ):
        kernel_file.parse(path)


def test_the_projects_own_kernels_have_models_and_legal_configurations():
    for kernel in kernel_file.discover(HOME).values():
        assert kernel.global_reads
        default = Configuration(kernel.element_types[0], tuple(kernel.parameters.items()))
        assert kernel.objection(default) == ""
        every = kernel.expand({}, kernel.element_types, layouts=kernel.layouts)
        assert "" in [objection for _, objection in every]


@pytest.mark.parametrize("where", ["cpu/a.c", "include/x.h"])
@pytest.mark.parametrize(
    "line",
    [
        "#include NAME",
        "  #  include NAME // a macro",
        '#/* why */include "y.h"',
        '/* why */ #include "y.h"',
        '/* why\n*/#include "y.h"',
        '#/*\n*/include "y.h"',
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
    folder = tmp_path / "kernels"
    header = written(folder / "include/x.h", "#if 1\n#endif\n")
    path = written(
        folder / "cpu/a.c", f'{PLAIN}// #include NAME\n#include "x.h"\n#include <math.h>\n'
    )
    assert kernel_file.parse(path).includes == [header]
    with (folder / where).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(
        InputError, match=rf'{folder / where}: line \d+: got .*; expected #include "'
    ):
        kernel_file.parse(path)


@pytest.mark.parametrize("lines", ["\n", "/*\n", "#\n", "#/* */\n", '#include "y.h"\n'])
def test_a_long_file_is_read_in_one_pass(tmp_path, lines):
    """Else hours pass with as many lines as a receipt may have."""
    text = PLAIN.replace("---\n", "---\nparameters: {P: 1}\n", 1) + lines * 100_000
    path = written(tmp_path / "a.c", text)
    if "#/" in lines:
        with pytest.raises(InputError, match="without a macro or a comment"):
            kernel_file.parse(path)
    else:
        assert kernel_file.parse(path).includes == []


def test_what_a_kernel_includes_is_found_however_it_is_written(tmp_path):
    texts = {
        "outside.h": "",
        "kernels/include/quoted.h": '#include "sub/inner.h"\n',
        "kernels/include/sub/inner.h": '#include "beside.h"\n',
        "kernels/include/sub/beside.h": "",
        "kernels/include/bracketed.h": "",
    }
    files = [written(tmp_path / name, text) for name, text in texts.items()]
    lines = f'# include "quoted.h"\n#include <bracketed.h>\n#include "{files[0]}"\n'
    path = written(tmp_path / "kernels/cpu/a.c", f"{PLAIN}#include <stdio.h>\n{lines}")
    kernel = kernel_file.parse(path)
    assert set(kernel.includes) == set(files)
    digest = kernel.digest
    for file in files:
        text = file.read_text()
        file.write_text("// changed\n")
        assert kernel_file.parse(path).digest != digest, file
        file.write_text(text)


def test_what_is_no_kernel_stops_nothing(tmp_path):
    texts = {
        "01_good.c": PLAIN,
        "02_mark.c": "\ufeff" + PLAIN,
        "03_bad.c": PLAIN.replace("idea", "ide"),
        "other.cpp": PLAIN,
        "wip.c": "int main",
        "notes.txt": "",
        ".01_good.c.swp.c": "",
    }
    files = [written(tmp_path / "kernels" / "cpu" / name, text) for name, text in texts.items()]
    lock = files[0].with_name(".#01_good.c")
    lock.symlink_to("nobody@nowhere.1:2")  # as Emacs locks what it edits
    refused = {}
    kernels = kernel_file.discover(tmp_path, refused)
    assert [kernel.text for kernel in kernels.values()] == [PLAIN, PLAIN]
    assert list(refused) == ["cpu/03_bad"]
    assert "03_bad.c: header: " in str(refused["cpu/03_bad"])
    strays = [
        message.split(": ignored; expected the suffix .c, and")[0]
        for message in kernel_file.strays(tmp_path)
    ]
    assert strays == [str(path) for path in files[3:5]]
