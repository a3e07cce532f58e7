"""A kernel's language is the suffix of its file; what it compiles to is launched and judged like
any other.
"""

import re
import shutil

import foreign_faults
import pytest
from ladder.compiling import compile, compilers, cubin, interface, toolchain
from ladder.core.errors import InputError
from ladder.model import campaign_file, kernel_file
from planted import CU_RIGHT, HOME, cuda_kernel, written

PTX = (HOME / "kernels" / "cuda" / "64_ptx.ptx").read_text()
NVRTC = (("compiler", "nvrtc"),)


def write(folder, text, name="cuda/mine.ptx"):
    return written(folder / "kernels" / name, text)


def build(folder, text="", arch="sm_90", path=None, builds=((), NVRTC)):
    kernel = kernel_file.parse(path or write(folder, text))
    configurations = list(kernel.expand({}, ["float32"], builds))
    (row,) = compile.compile_kernel(kernel, configurations, arch, folder / "build", 1)
    return row


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_ptx_is_assembled_in_one_way_only(tmp_path, arch):
    row = build(tmp_path, PTX, arch)
    assert (row.status, row.compiler, row.configuration) == ("compiled", "ptxas", "-")
    assert (row.options, row.function, row.static_shared) == ("", "gemm", 0)
    assert 8 <= row.registers <= 32
    assert row.version.startswith("Build cuda_")
    functions = interface.functions((tmp_path / "build" / row.binary).read_bytes())
    assert functions["gemm"].exact_block == (32, 8, 1)
    assert build(tmp_path, PTX, "sm_86").sha256 != row.sha256


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            ".version 7.0",
            ".version 99.0",
            r"kernel\.ptx, line \d+; fatal   : Unsupported \.version 99\.0; current version is "
            r"'\d+\.\d+'",
        ),
        (
            "mul.f32 %sum, %sum,",
            "mul.f32 %sum, %wrong,",
            r"kernel\.ptx, line \d+; error   : Unknown symbol '%wrong'",
        ),
        (
            "entry gemm",
            "entry other",
            r"^no function gemm; found other; expected \.visible \.entry gemm\(int M, ",
        ),
        (
            ".param .u32 lda,",
            "",
            r"^gemm takes 10 parameters; .*: the sixth, lda, has 8 bytes at offset 24; expected 4 "
            r"bytes at offset 24$",
        ),
        (
            ".reqntid 32, 8, 1",
            ".reqntid 32, 4, 1",
            r"^gemm is compiled for blocks of 32 x 4 x 1 threads; expected 32 x 8 x 1, the header's",
        ),
        (
            ".reqntid 32, 8, 1",
            ".maxntid 128, 1, 1",
            r"^gemm is compiled for at most 128 threads a block .*; expected 256 or more",
        ),
        (".target sm_75", ".target sm_90a\n", r"\.target"),
    ],
)
def test_ptx_that_cannot_be_launched_is_a_compile_error(tmp_path, old, new, reason):
    text = PTX.replace(old, new)
    row = build(tmp_path, text.replace("[lda]", "[ldb]") if "lda" in old else text)
    assert row.status == "compile_error"
    assert re.search(reason, row.reason), row.reason


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "parameters: {BM: 8}",
            'header: parameters: got {"BM": 8}; expected only kernels in .cu or .py or .c',
        ),
        (
            "element_types: [float32, float64]",
            "header: element_types: got float32, float64; expected one, because PTX has no type `T`",
        ),
    ],
)
def test_what_a_header_of_ptx_cannot_have_is_refused(tmp_path, line, message):
    with pytest.raises(InputError, match=re.escape(f"mine.ptx: {message}")):
        kernel_file.parse(write(tmp_path, PTX.replace("\nblock:", f"\n{line}\nblock:", 1)))


def test_two_kernels_of_one_name_are_refused(tmp_path):
    first = write(tmp_path, PTX)
    write(tmp_path, "// a fragment without a header\n", "cuda/mine.cu")
    assert list(kernel_file.discover(tmp_path)) == ["cuda/mine"]
    second = write(tmp_path, cuda_kernel("t", CU_RIGHT), "cuda/mine.cu")
    refused = {}
    assert kernel_file.discover(tmp_path, refused) == {}
    assert list(refused) == ["cuda/mine"]
    for path, other in ((first, second), (second, first)):
        message = rf"{path.name}: has the name of {other.name}; rename one"
        with pytest.raises(InputError, match=message):
            kernel_file.parse(path)


def test_a_kernel_is_found_by_its_name_and_a_cubin_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, PTX)
    assert kernel_file.path_of("cuda", "mine") == path
    write(tmp_path, "\x7fELF", "cuda/other.cubin")
    (message,) = kernel_file.strays(tmp_path)
    assert re.search(
        r"other\.cubin: ignored; expected the suffix \.cu or \.ptx or \.py, and a "
        r"comment",
        message,
    )
    assert list(kernel_file.discover(tmp_path)) == ["cuda/mine"]


def test_the_compilers_of_a_campaign_are_those_of_each_kernel():
    data = {
        "campaign": "t",
        "kernels": ["cuda/64_ptx", "cuda/03*", "cpu/01*"],
        "problems": {"cuda": [[8, 8, 8]]},
        "compiler": ["nvcc", "nvrtc"],
    }
    plan = campaign_file.load(data, "t", kernel_file.discover(HOME))
    assert {id: plan.compilers(kernel) for id, kernel in plan.kernels.items()} == {
        "cuda/64_ptx": ["ptxas"],
        "cuda/03_shared_tile": ["nvcc", "nvrtc"],
        "cpu/01_naive_ijk": ["cc"],
    }


CUTE = (
    PTX.partition("---*/")[0].replace("\nblock:", "\nuses: [cutlass]\nblock:")
    + "---*/\n#include <cute/tensor.hpp>\n"
)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A package of headers, and a compiler that notes its arguments; returns the package's metadata
    and the arguments.
    """
    metadata, asked = tmp_path / "site" / "headers-1.0.dist-info" / "METADATA", []
    written(metadata, "Metadata-Version: 2.1\nName: headers\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setitem(toolchain.LIBRARIES, "cutlass", ("headers", "headers/include"))

    def compiler(source, arch, includes, options):
        asked.append([f"-I{includes[-1]}", *options])
        return compilers.compile_source("ptxas", PTX, arch)

    for name in ("nvcc", "nvrtc"):
        monkeypatch.setitem(compilers.COMPILERS, name, compiler)
    return metadata, asked


def test_a_library_is_a_folder_for_the_compiler_and_its_version_part_of_the_build(
    tmp_path, library
):
    metadata, asked = library
    kernel = kernel_file.parse(write(tmp_path, CUTE, "cuda/mine.cu"))
    folder = f"-I{tmp_path}/site/headers/include"
    configurations = list(kernel.expand({}, ["float32"], [(), NVRTC]))

    def versions():
        rows = compile.compile_kernel(kernel, configurations, "sm_90", tmp_path / "build", 1)
        assert [row.status for row in rows] == ["compiled", "compiled"]
        return {row.version.split(", ")[1] for row in rows}

    assert versions() == versions() == {"headers 1.0"}  # the second time from the folder
    assert asked == [[folder], [folder, "-default-device"]]
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    assert versions() == {"headers 1.1"}
    assert len(asked) == 4


def test_a_library_that_is_not_installed_is_named_with_the_command_that_installs_it(
    tmp_path, library
):
    metadata, asked = library
    path = write(tmp_path, CUTE, "cuda/mine.cu")
    kernel = kernel_file.parse(path)
    before = toolchain.versions(kernel, "nvcc")
    shutil.rmtree(metadata.parent)
    row = build(tmp_path, path=path, builds=[()])
    assert row.status == "not_supported"
    assert row.reason == "needs the headers of headers; `make setup-cutlass` installs them"
    assert (row.compiler, asked) == ("", [])
    # so that installing it makes the job run again
    assert before == f"{toolchain.versions(kernel, 'nvcc')}, headers 1.0"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "cuda/mine.ptx",
            CUTE,
            'header: uses: got ["cutlass"]; expected only kernels in .cu to have it',
        ),
        (
            "cpu/mine.c",
            "/*---\ntitle: t\nidea: i\nuses: [cutlass]\n---*/\n",
            'header: uses: got ["cutlass"]; expected only kernels in .cu',
        ),
        (
            "cuda/mine.cu",
            CUTE.replace("[cutlass]", "[cublas]"),
            'header: uses[0]: got "cublas"; expected cutlass',
        ),
    ],
)
def test_libraries_are_those_that_are_known_and_for_cuda_only(tmp_path, name, text, message):
    with pytest.raises(InputError, match=re.escape(f"{name.partition('/')[2]}: {message}")):
        kernel_file.parse(write(tmp_path, text, name))


@pytest.mark.parametrize(
    "planted",
    [p for p in foreign_faults.PLANTED if p.file == foreign_faults.PTX],
    ids=lambda p: p.what,
)
def test_a_fault_planted_in_ptx_compiles_and_is_another_kernel(tmp_path, planted):
    """GPU tests show that it is found; a binary that keeps state is told apart here."""
    row = build(tmp_path, path=planted.write(tmp_path), builds=[()])
    assert row.status == "compiled", row.reason
    kept = cubin.state((tmp_path / "build" / row.binary).read_bytes())
    assert kept == (["calls"] if "outlives" in planted.what else [])
    assert row.sha256 != build(tmp_path, PTX).sha256
