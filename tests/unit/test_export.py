"""What `ladder export` writes launches what the pipeline would launch, from C++ and from Python;
the driver is a recording one.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
import recording
from ladder.cli import export
from ladder.cli.best_rung import fastest_result
from ladder.cli.main import main
from ladder.compiling import toolchain
from ladder.core.expressions import cpp, evaluate
from ladder.core.types import ELEMENT_TYPES
from ladder.devices.operands import scale_places
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import DEVICE_NAMES, parse
from ladder.model.problem import Problem
from planted import HOME, written
from rungs import ALL as KERNELS

CUDA_H = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "include"
MAIN = """
#include "gemm.h"
#include <cstdio>
#include <cstdlib>
int main(int, char** v) {
  try {
    const gemm_ladder::@CLASS@ gemm(v[1]);
    auto number = [&](int at) { return std::strtoull(v[at], nullptr, 10); };
    gemm(number(2), number(3), number(4), std::atof(v[5]), number(6), number(7), number(8), number(9), std::atof(v[10]), number(11),
         number(12), @SCALES@reinterpret_cast<CUstream>(number(13)));
  } catch (const std::exception& error) {
    std::printf("%s\\n", error.what());
    return 1;
  }
}
"""
PYTHON = """
import ctypes, json, struct, sys
sys.path.insert(0, sys.argv[1])
import gemm
class Array:
    def __init__(self, interface): self.__cuda_array_interface__ = interface
class Packed:
    def __init__(self, data, shape, strides, device=2, code=2, bits=32, offset=0):
        self.device = device
        self.places = [(ctypes.c_int64 * len(of))(*of) if of else None for of in (shape, strides)]
        places = [of and ctypes.addressof(of) or 0 for of in self.places]
        tensor = struct.pack("P2iiBBHPPQ", data - offset, device, 0, len(shape), code, bits, 1, *places, offset)
        self.tensor = ctypes.create_string_buffer(tensor)
    def __dlpack_device__(self): return self.device, 0
    def __dlpack__(self, *, stream):
        print("ready on", stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)
arrays = [given and (Array(given) if "typestr" in given else Packed(**given)) for given in json.loads(sys.argv[2])]
try:
    gemm.gemm(*arrays[:3], *json.loads(sys.argv[3]), arrays[3:])
except (ValueError, RuntimeError) as error:
    print(error)
    sys.exit(1)
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """The folder of the recording driver."""
    folder = tmp_path_factory.mktemp("driver")
    recording.make(folder)
    return folder


class Export:
    """An export of a binary that is none, and what launches it beside the recording driver."""

    def __init__(self, folder, driver, kernel, element_type="float32", layout="nn", **environment):
        self.folder, self.driver, self.kernel = folder, driver, kernel
        parameters = tuple(kernel.parameters.items())
        self.configuration = Configuration(element_type, parameters, layout=layout)
        sizes = recording.sizes(kernel, self.configuration)
        given = {"LD_LIBRARY_PATH": str(driver), "ARGUMENT_SIZES": sizes}
        self.environment = os.environ | given | environment
        binary = b"cubin of nothing"
        sha256 = hashlib.sha256(binary).hexdigest()
        resource = {"sha256": sha256, "compiler": "nvcc", "version": "1", "options": ""}
        export.write(folder, kernel, self.configuration, "sm_90", binary, resource, None)

    def expected(self, problem, stream=7, *device):
        at = recording.addresses(problem)
        return recording.expected(self.kernel, self.configuration, problem, at, stream, *device)

    def build(self, text=MAIN):
        """Compile a program; returns its path."""
        source, program = self.folder / "main.cpp", self.folder / "main"
        scales = recording.scales(self.configuration.element_type)
        text = text.replace("@SCALES@", "".join(f"{address}ull, " for address in scales))
        source.write_text(text.replace("@CLASS@", f"Gemm_{self.kernel.name}"))
        warnings = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-isystem", CUDA_H]
        libraries = [f"-L{self.driver}", "-lcuda", "-lstdc++", "-lm"]
        command = [*toolchain.cc(), "-x", "c++", *warnings, source, "-o", program, *libraries]
        subprocess.run(command, check=True)
        return program

    def run(self, *command):
        return subprocess.run(
            list(map(str, command)), env=self.environment, stdout=subprocess.PIPE, text=True
        )

    def in_python(self, arrays, alpha=1.0, beta=0.0, stream=7, scales=()):
        given = json.dumps([*arrays, *scales]), json.dumps([alpha, beta, stream])
        return self.run(sys.executable, "-c", PYTHON, self.folder, *given)

    def in_both(self, p):
        """Launch it in C++ and in Python."""
        program, (a, b, c) = self.folder / "main", recording.addresses(p).values()
        if not program.exists():
            self.build()
        operands = [p.alpha, a, p.lda, b, p.ldb, p.beta, c, p.ldc]
        yield self.run(program, self.folder / export.CUBIN, p.m, p.n, p.k, *operands, 7)
        yield self.in_python(interfaces(p), p.alpha, p.beta, scales=scales(p))


def interfaces(p):
    """The three arrays, as `__cuda_array_interface__` describes them; bfloat16 as DLPack does."""
    if ELEMENT_TYPES[p.element_type].result:
        of_c = interfaces(replace(p, element_type=ELEMENT_TYPES[p.element_type].result))[2]
        of_ab = interfaces(replace(p, element_type="float32"))[:2]
        strides = [(ld, 1) for ld in (p.lda, p.ldb)]
        as_bytes = zip(of_ab, strides, strict=True)
        return [*(ab | {"typestr": "|u1", "strides": each} for ab, each in as_bytes), of_c]
    if p.element_type == "bfloat16":
        return packed(p, code=4, bits=16)
    size = ELEMENT_TYPES[p.element_type].size
    leading = p.lda, p.ldb, p.ldc
    return [
        {
            "typestr": f"<f{size}",
            "shape": (rows, columns),
            "data": (address, False),
            "version": 3,
            "strides": None if ld == columns else (ld * size, size),
        }
        for (rows, columns), ld, address in zip(
            p.shapes, leading, recording.addresses(p).values(), strict=True
        )
    ]


def scales(p):
    """The arrays of the scales of A and of B."""
    shapes = [(place.rows, place.cols) for place in scale_places(p)]
    return [
        {"typestr": "<f4", "shape": shape, "data": (address, False), "version": 3}
        for shape, address in zip(shapes, recording.scales(p.element_type), strict=True)
    ]


def packed(p, **more):
    """The same as DLPack describes them: strides in elements, or none."""
    size = ELEMENT_TYPES[p.element_type].size
    arrays = interfaces(replace(p, element_type="float16")) if size == 2 else interfaces(p)
    return [
        {
            "data": array["data"][0],
            "shape": array["shape"],
            "strides": array["strides"] and [stride // size for stride in array["strides"]],
        }
        | more
        for array in arrays
    ]


CASES = {
    "02_naive_coalesced": Problem(5, 70, 3, "float64", alpha=-1.5, beta=0.5, padding=1),
    "11_split_k": Problem(256, 300, 1000, beta=0.5),
    "14_cluster_split_k": Problem(96, 160, 2240),
    "21_tensor_split": Problem(300, 200, 100, offset=1),
    "32_half_wide_tile": Problem(300, 200, 104, "float16", alpha=2),
    "37_half_last_wave": Problem(1000, 2000, 72, "bfloat16", beta=0.5),
    "34_half_late_stores": Problem(300, 204, 104, "float16", padding="0,4,1"),
    "38_half_any_rows": Problem(77, 55, 33, "bfloat16", offset=1, layout="tt"),
    "35_half_multicast": Problem(304, 200, 104, "bfloat16", layout="nt"),
    "50_fp8": Problem(304, 208, 144, "float8_e4m3_float16", padding="16,32,8", layout="nt"),
    "51_fp8_promoted": Problem(77, 55, 48, "float8_e4m3", beta=0.5, layout="nt"),
    "52_fp8_blocks": Problem(130, 264, 528, "float8_e4m3_blocks", layout="nt"),
    "42_half_one_wave": Problem(304, 200, 104, "bfloat16", padding=8, layout="tn"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_launch_is_that_of_the_pipeline(name, driver, tmp_path):
    problem = CASES[name]
    kernel = KERNELS[f"cuda/{name}"]
    made = Export(tmp_path, driver, kernel, problem.element_type, problem.layout)
    for done in made.in_both(problem):
        assert done.stdout.replace("ready on 7\n", "").splitlines() == made.expected(problem)


def test_arrays_of_another_layout_are_named_as_they_lie(driver, tmp_path):
    made = Export(tmp_path, driver, KERNELS["cuda/05_register_tile"], layout="tn")
    done = made.in_python(interfaces(Problem(5, 6, 7)))
    words = "got a of 5 x 7, b of 7 x 6, c of 5 x 6; expected K x M, K x N, M x N"
    assert (done.returncode, done.stdout.strip()) == (1, words)


def test_scales_that_do_not_fit_are_named(driver, tmp_path):
    problem = CASES["52_fp8_blocks"]
    made = Export(tmp_path, driver, KERNELS["cuda/52_fp8_blocks"], problem.element_type, "nt")
    right = scales(problem)
    for given, message in (
        ([], "got 0 arrays of scales; expected 2"),
        ([right[0], right[1] | {"shape": (3, 5)}], "scales_b: got 3 x 5; expected 3 x 8 without"),
        ([right[0] | {"typestr": "<f2"}, right[1]], "scales_a: got <f2 of shape"),
    ):
        refused = made.in_python(interfaces(problem), scales=given)
        assert refused.returncode == 1
        assert message in refused.stdout


def test_the_code_of_the_page_launches(driver, tmp_path, monkeypatch):
    """What needs PyTorch is only compiled."""
    page = (HOME / "docs" / "export.md").read_text()
    in_cpp, in_python, of_torch = re.findall(r"```(?:cpp|python)\n(.*?)```", page, re.DOTALL)
    include, _, body = in_cpp.partition("\n")
    p = Problem(256, 300, 1000)
    a, b, c = recording.addresses(p).values()
    folder = tmp_path / "results" / "export" / "11_split_k"
    folder.mkdir(parents=True)
    made = Export(folder, driver, KERNELS["cuda/11_split_k"])
    given = (
        f"int M = {p.m}, N = {p.n}, K = {p.k}, lda = {p.lda}, ldb = {p.ldb}, ldc = {p.ldc}; "
        f"float alpha = 1, beta = 0; CUdeviceptr A = {a}, B = {b}, C = {c}; CUstream stream = 0;"
    )
    program = made.build(f"{include}\nint main() {{ {given} {body} }}\n")
    monkeypatch.chdir(tmp_path)
    assert made.run(program).stdout.splitlines() == made.expected(p, 0)
    text = PYTHON.partition("try:")[0] + "a, b, c = arrays\n" + in_python
    done = made.run(sys.executable, "-c", text, folder, json.dumps(interfaces(p)))
    assert done.stdout.splitlines() == made.expected(p, 0)
    compile(of_torch, "docs/export.md", "exec")


CLUSTERED = """/*---
title: Clustered
idea: planted by a test
where: {groups: "min(ceil_div(M, 4), clusters_of_4)"}
block: [32]
grid: [4 * groups, sm_count, clusters_of_4]
dynamic_shared: shared_memory_per_block // 2
---*/
"""
PIPELINE = """
import json, os, sys
from types import SimpleNamespace
from unittest.mock import MagicMock
sys.modules["pycuda.driver"] = sys.modules["pycuda"] = pycuda = MagicMock()
pycuda.driver = pycuda
sm_count, shared = map(int, sys.argv[1:])
pycuda.device_attribute = MagicMock(MULTIPROCESSOR_COUNT=sm_count, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=shared, L2_CACHE_SIZE=0)
pycuda.Device.return_value.get_attribute = lambda it: it
pycuda.Device.return_value.compute_capability.return_value = 9, 0
from ladder.devices import cuda, cuda_operands
from ladder.model.kernel_file import device_names
cuda_operands.Apart = MagicMock()
cuda.Board = MagicMock()
cuda.Board.return_value.describe.return_value = {}
cuda.Cuda._wait_for_gate = lambda self: [SimpleNamespace(name="CUDA_SUCCESS")]
device = cuda.Cuda("", b"cubin", MagicMock())
sys.stdout.flush()
print(json.dumps([dict(device.names), device_names({"attributes": device.describe()})]))
"""


@pytest.mark.parametrize("without", [{}, {"NO_CLUSTERS": "1"}])
def test_expressions_know_the_same_of_the_device_in_the_pipeline_and_in_what_is_exported(
    without, driver, tmp_path
):
    kernel = parse(written(tmp_path / "kernels" / "cuda" / "clustered.cu", CLUSTERED))
    problem = Problem(1000, 4, 4)
    made = Export(tmp_path, driver, kernel, **without)
    device = recording.DEVICE | ({"clusters_of_4": 0} if without else {})
    launch = json.loads((tmp_path / "launch.json").read_text())
    assert launch["device"] == list(device) == list(DEVICE_NAMES)
    asked = [] if without else recording.clusters_query("alone")
    for done in made.in_both(problem):
        assert done.stdout.splitlines() == asked + made.expected(problem, 7, device)
    done = made.run(sys.executable, "-c", PIPELINE, recording.SM_COUNT, recording.SHARED)
    *lines, names = done.stdout.splitlines()
    assert json.loads(names) == [device, device]
    assert lines == ([] if without else recording.clusters_query("stamp"))


NEEDY = """/*---
title: Needy
idea: planted by a test
where: {halves: "N // 2"}
needs: [alignment >= 16, K % 4 == 0 and beta == 0, alignment_c == 16 or lda == K]
workspace: (3 - (M % 3 or 5)) * 0
block: [32]
grid: [halves, "M if M < 65536 else 0"]
---*/
"""


@pytest.fixture
def needy(tmp_path, driver):
    return Export(
        tmp_path, driver, parse(written(tmp_path / "kernels" / "cuda" / "needy.cu", NEEDY))
    )


RIGHT = Problem(4, 4, 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": "0,0,1"}, "cuda/needy: expected alignment >= 16"),
        ({"k": 6}, "cuda/needy: expected K % 4 == 0 and beta == 0"),
        ({"beta": 1}, "cuda/needy: expected K % 4 == 0 and beta == 0"),
        ({}, "allocate 4 on 7"),
    ],
)
def test_what_breaks_a_need_is_refused_before_anything_is_queued(needy, change, message):
    for done in needy.in_both(replace(RIGHT, **change)):
        assert done.returncode == (1 if change else 0)
        assert re.split("[;\n]", done.stdout)[0] == message


def test_rows_that_no_tensor_map_describes_are_refused_before_anything_is_launched(
    driver, tmp_path
):
    made = Export(tmp_path, driver, KERNELS["cuda/32_half_wide_tile"], "float16")
    for done in made.in_both(Problem(64, 64, 63, "float16")):
        assert done.returncode == 1
        assert "gemm:" not in done.stdout
        assert re.search(
            "expected rows of A( and B)? that begin at multiples of 16 bytes", done.stdout
        )


def test_errors_of_the_driver_name_the_kernel_and_free_the_workspace(needy):
    needy.environment["FAILS"] = "gemm"
    for done in needy.in_both(RIGHT):
        freed, error = done.stdout.splitlines()[-2:]
        assert freed == "free 7000000 on 7"
        assert re.fullmatch("cuda/needy(, for sm_90)?: cuLaunchKernel: CUDA_ERROR", error)
    (needy.folder / export.CUBIN).write_bytes(b"other")
    for done in needy.in_both(RIGHT):
        assert re.search("sm_90.*CUDA_ERROR_NO_BINARY_FOR_GPU", done.stdout)


@pytest.mark.parametrize(
    ("index", "change", "message"),
    [
        (0, None, "a: got NoneType; expected an array on a GPU"),
        (1, {"typestr": "<f8"}, "b: got <f8 of shape (8, 4); expected <f4"),
        (1, {"strides": (4, 32)}, "b: got strides of 4 and 32 bytes; expected rows"),
        (
            2,
            {"shape": (4, 5)},
            "got a of 4 x 8, b of 8 x 4, c of 4 x 5; expected M x K, K x N, M x N",
        ),
        (2, {"data": (16, True)}, "c: got a read-only array"),
    ],
)
def test_python_names_the_array_that_does_not_fit(needy, index, change, message):
    arrays = interfaces(RIGHT)
    arrays[index] = change and arrays[index] | change
    done = needy.in_python(arrays)
    assert done.returncode == 1
    assert message in done.stdout.translate(str.maketrans("[]", "()"))


def test_without_a_context_python_retains_that_of_the_device(needy):
    needy.environment["NO_CONTEXT"] = "1"
    assert needy.in_python(interfaces(RIGHT)).stdout.startswith("retain 0\ncontext 2\n")


def test_arrays_of_dlpack_are_launched_on_as_well(driver, tmp_path):
    problem = Problem(5, 70, 3, "bfloat16", padding=1)
    made = Export(tmp_path, driver, KERNELS["cuda/02_naive_coalesced"], problem.element_type)
    arrays = packed(problem, code=4, bits=16, offset=4, device=13)
    launched = made.in_python(arrays).stdout.splitlines()
    assert launched == ["ready on 7"] * 3 + made.expected(problem)
    # DLPack's name of the default stream
    assert made.in_python(arrays, stream=0).stdout.startswith("ready on 1\n" * 3)
    for change, message in (
        ({"device": 1}, "a: got an array on DLPack's device 1; expected 2, a GPU"),
        ({"code": 0}, "a: got DLPack's type 0 of 16 bits of shape (5, 3); expected bfloat16"),
    ):
        refused = made.in_python([arrays[0] | change, *arrays[1:]])
        assert refused.returncode == 1
        assert message in refused.stdout


EXPRESSIONS = [
    "M // 2 * 3 - K",
    "K // 2",
    "K % 3",
    "-K % 4",
    "N / 8",
    "2 ** 31 - M",
    "ceil_div(M, 2) + ceil_div(K, 2)",
    "max(M, N, 1 > 0)",
    "min(M, K) if M < N <= 12 else 0",
    "not M",
    "(M % 4 or N) * 4",
    "(M and K > 0) + 1",
    "M - (N - K)",
    "0 if M == 8 else 1.5",
]


def test_expressions_in_cpp_are_those_of_headers(tmp_path):
    header = (HOME / "workflow" / "ladder" / "cli" / "exported.h").read_text()
    functions = re.findall(r"^  static double (?!aligned).*\}$", header, re.MULTILINE)
    body = "".join(f'std::printf("%.17g\\n", double({cpp(text)}));' for text in EXPRESSIONS)
    source = "\n".join(
        [
            "#include <algorithm>\n#include <cmath>\n#include <cstdio>",
            *functions,
            f"int main() {{ const double M = 7, N = 12, K = -5; {body} }}",
        ]
    )
    command = [*toolchain.cc(), "-x", "c++", "-std=c++11", "-", "-o", "it", "-lstdc++", "-lm"]
    subprocess.run(command, input=source, text=True, check=True, cwd=tmp_path)
    printed = subprocess.run(["./it"], stdout=subprocess.PIPE, check=True, cwd=tmp_path).stdout
    names = {"M": 7, "N": 12, "K": -5}
    assert list(map(float, printed.split())) == [evaluate(text, names) for text in EXPRESSIONS]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("03_blocked", "03_blocked: got a CPU kernel; expected a CUDA kernel"),
        ("11_split", "11_split: no such CUDA kernel; did you mean `11_split_k`?"),
        (
            "11_split_k --type float64",
            "--type float64: expected one of the element_types in the header of cuda/11_split_k, fl",
        ),
        (
            "11_split_k --layout nt",
            "--layout nt: expected one of the layouts in the header of cuda/11_split_k, nn",
        ),
        (
            "11_split_k BX=3",
            "BX=3: expected a parameter of cuda/11_split_k, BM, BN, BK, TM, TN, SLICES",
        ),
        ("11_split_k BM=x", "BM=x: expected a configuration such as BM=64 BN=128"),
        (
            "11_split_k BM=3",
            "SLICES=8: requires BM % (4 * TM) == 0; expected a configuration that compiles",
        ),
    ],
)
def test_what_cannot_be_exported_is_an_error_that_says_what_was_expected(
    arguments, message, capsys
):
    with pytest.raises(SystemExit):
        main(["export", *arguments.split()])
    assert message in capsys.readouterr().err


@pytest.mark.published
def test_the_best_configuration_is_that_of_the_headline_dataset():
    kernel = KERNELS["cuda/11_split_k"]
    best = fastest_result(kernel, "sm_90", "float32", "", "nvidia-h200")
    assert best and best["dataset"].startswith("results/") and best["problem"] == "M = N = K = 4096"
    label = "BM=64 BN=128 BK=8 TM=8 TN=8 SLICES=8"
    given = fastest_result(kernel, "sm_90", "float32", label, "nvidia-h200")
    assert given and given["configuration"] == label
    assert fastest_result(kernel, "sm_80", "float32", "", "") is None
    for slug in ("nvidia-h200", "nvidia-h100-80gb-hbm3"):
        best = fastest_result(KERNELS["cuda/34_half_late_stores"], "sm_90", "bfloat16", "", slug)
        # of two models with this architecture, the one that is there
        assert best and f"/{slug}/" in best["dataset"]
