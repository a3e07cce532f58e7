"""The models on patterns whose answers are known."""

import subprocess
from math import prod
from pathlib import Path

import pandas as pd
import pytest
from ladder.analysis import kernel_model, tables
from ladder.analysis.kernel_model import occupancy, sectors, wavefronts
from ladder.compiling import toolchain
from ladder.core.expressions import evaluate
from ladder.model import kernel_file
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem
from rungs import ALL

LANES = range(32)
H200 = {
    "compute_capability": "9.0",
    "sm_count": 132,
    "shared_memory_per_sm_bytes": 233472,
    "registers_per_sm": 65536,
    "threads_per_sm": 2048,
    "max_sm_clock_mhz": 1980,
    "shared_memory_per_block_bytes": 232448,
}
GPU = {"sm_count": 132, "shared_memory_per_block": 232448, "clusters_of_4": 30}
"""What the expressions of headers call it."""


@pytest.mark.parametrize(
    ("address", "width", "expected"),
    [
        (lambda i: 4 * i, 4, (1, 0)),
        (lambda i: 8 * i, 4, (2, 1)),
        (lambda i: 128 * i, 4, (32, 31)),
        (lambda i: 132 * i, 4, (1, 0)),
        (lambda i: 0, 4, (1, 0)),
        (lambda i: i // 16 * 128 + 4 * (i % 16), 4, (2, 1)),
        (lambda i: 8 * i, 8, (2, 0)),
        (lambda i: 16 * i, 16, (4, 0)),
        (lambda i: 16 * (i % 16), 16, (4, 0)),  # two rows of 16 threads read the same fours
        (lambda i: 16 * (i // 16), 16, (2, 0)),  # one address a row: two registers a wavefront
        (lambda i: 0, 8, (1, 0)),
        (lambda i: 512 * i, 16, (32, 28)),
        (lambda i: 2 * i, 2, (1, 0)),  # two halves a word
    ],
)
def test_wavefronts_of_a_read(address, width, expected):
    assert wavefronts(tuple(address(i) for i in LANES), width) == expected


def test_only_reads_are_packed():
    assert wavefronts((0,) * 32, 16, read=False) == (4, 0)


@pytest.mark.parametrize(
    ("stride", "offset", "width", "expected"),
    [(4, 0, 4, 4), (4, 4, 4, 5), (4096, 0, 4, 32), (0, 0, 4, 1), (16, 0, 16, 16)],
)
def test_sectors(stride, offset, width, expected):
    assert sectors(tuple(stride * i + offset for i in LANES), width) == expected


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (256, 32, 0, (8, 1.0, "threads")),
        (32, 32, 0, (32, 0.5, "blocks")),
        # 40 registers a thread: 48 warps, of which a block takes 32
        (1024, 33, 0, (1, 0.5, "registers")),
        (128, 32, 48 << 10, (4, 0.25, "shared memory")),
        # 114 KiB with the reserved one: just two
        (128, 32, 113 << 10, (2, 0.125, "shared memory")),
        (128, 32, 114 << 10, (1, 0.0625, "shared memory")),
    ],
)
def test_occupancy_of_an_h200(threads, registers, shared, expected):
    assert occupancy(threads, registers, shared, H200) == expected


CALCULATOR = """
#include <cstdio>
#include <cstdlib>
#include "cuda_occupancy.h"
int main() {
  int threads, registers, shared;
  while (std::scanf("%d %d %d", &threads, &registers, &shared) == 3) {
    cudaOccDeviceProp p;
    p.computeMajor = MAJOR, p.computeMinor = MINOR, p.maxThreadsPerBlock = 1024, p.maxThreadsPerMultiprocessor = THREADS;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536, p.warpSize = 32, p.numSms = 100;
    p.sharedMemPerBlock = 49152, p.sharedMemPerMultiprocessor = SHARED, p.sharedMemPerBlockOptin = SHARED - 1024;
    p.reservedSharedMemPerBlock = 1024;
    cudaOccFuncAttributes a;
    a.maxThreadsPerBlock = 1024, a.numRegs = registers, a.sharedSizeBytes = shared, a.maxDynamicSharedSizeBytes = 0;
    a.partitionedGCConfig = PARTITIONED_GC_OFF, a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, a.numBlockBarriers = 1;
    cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &p, &a, &state, threads, 0) != CUDA_OCC_SUCCESS) return 1;
    std::printf("%d\\n", result.activeBlocksPerMultiprocessor);
  }
}
"""


@pytest.mark.parametrize(
    ("capability", "threads", "shared"),
    [("8.0", 2048, 167936), ("8.6", 1536, 102400), ("8.9", 1536, 102400), ("9.0", 2048, 233472)],
)
def test_occupancy_agrees_with_the_toolkits_own_calculator(tmp_path, capability, threads, shared):
    header = Path(toolchain.nvcc()).resolve().parents[1] / "include" / "cuda_occupancy.h"
    if not header.exists():
        pytest.skip("the toolkit has no cuda_occupancy.h")
    major, minor = capability.split(".")
    (tmp_path / "o.cpp").write_text(CALCULATOR)
    macros = {"MAJOR": major, "MINOR": minor, "THREADS": threads, "SHARED": shared}
    flags = [f"-I{header.parent}", *(f"-D{name}={value}" for name, value in macros.items())]
    subprocess.run(["g++", *flags, "o.cpp", "-o", "o"], cwd=tmp_path, check=True)
    cases = [
        (threads, registers, shared)
        for threads in (32, 64, 96, 128, 256, 512, 1024)
        for registers in (16, 32, 33, 40, 64, 127, 128, 129, 168, 255)
        for shared in (0, 4096, 8448, 16896, 49152)
        if threads * registers <= 65536
    ]
    given = "\n".join(" ".join(map(str, case)) for case in cases)
    done = subprocess.run([tmp_path / "o"], input=given, text=True, capture_output=True, check=True)
    device = H200 | {
        "compute_capability": capability,
        "threads_per_sm": threads,
        "shared_memory_per_sm_bytes": shared,
    }
    blocks = [occupancy(*case, device)[0] for case in cases]
    assert blocks == [int(line) for line in done.stdout.split()]


CUDA = {kernel.name: kernel for kernel in ALL.values() if kernel.kind == "cuda"}
ENVIRONMENT = {"kind": "cuda", "attributes": H200, "peaks": {"fp32_tflops": 65.0, "copy_tb_s": 4.0}}


def modeled(name, size, element_type="float32", environment=ENVIRONMENT, resource=(), **given):
    """The model of a rung in its default configuration on a square problem."""
    kernel = CUDA[name]
    configuration = Configuration(element_type, tuple(kernel.parameters.items()))
    compiled = {"function": "gemm", "registers": "32", "static_shared": "8192"} | dict(resource)
    problem = Problem(size, size, size, element_type)
    return kernel_model.model(kernel, configuration, problem, compiled, environment, **given)


def legal(kernel):
    """The configurations of a kernel in float32."""
    return [
        configuration
        for configuration, objection in kernel.expand({}, ["float32"])
        if not objection
    ]


@pytest.mark.parametrize(
    "kernel",
    [kernel for kernel in CUDA.values() if kernel.accesses],
    ids=lambda kernel: kernel.name,
)
def test_the_accesses_of_a_kernel_agree_with_its_formula(kernel):
    """Where the tiles divide the problem, both count the same elements; what is put into shared
    memory is what was read.
    """
    given = Problem(512, 512, 512).names() | GPU
    for configuration in legal(kernel):
        names = kernel.names(configuration, given)
        shapes = kernel.launches(configuration, given)
        read = [
            512 * prod(shape.block) * prod(shape.grid) * evaluate(access["per_k"], names)
            for shape in shapes
            for access in shape.accesses
            if "global_read" in access
        ]
        formula = evaluate(kernel.global_reads, names)
        assert sum(read) == pytest.approx(formula), configuration.label
        model = kernel_model.traffic(shapes, configuration.element_type, names)
        if len(shapes) == 1:
            assert model["shared_writes"] in (0, pytest.approx(sum(read)))
        # there a warp reads one element
        assert model["global_sectors"] >= 4 * sum(read) / 32 or kernel.name[:2] in ("01", "02")


def test_every_warp_of_a_block_accesses_shared_memory_alike():
    """So the first may stand for all."""
    accesses = [
        (kernel, configuration, access)
        for kernel in CUDA.values()
        for configuration in legal(kernel)
        for access in kernel.accesses
        if not {"shared_read", "shared_write"}.isdisjoint(access)
    ]
    for kernel, configuration, access in accesses:
        x, *others = kernel.launches(configuration, Problem(1, 1, 1).names() | GPU)[0].block
        names = configuration.names()
        address = access.get("shared_read", access.get("shared_write"))
        values = [
            4 * int(evaluate(address, {**names, "thread": i, "x": i % x, "y": i // x}))
            for i in range(x * prod(others))
        ]
        width = 4 * int(evaluate(access.get("width", 1), names))
        found = {wavefronts(tuple(values[i : i + 32]), width) for i in range(0, len(values), 32)}
        assert len(found) == 1, (kernel.name, configuration.label, access)


def test_a_row_by_hand():
    """A 32 x 32 tile of rung 03: two rows of A and one of B for each k, in three quarters of a
    wavefront each four k.
    """
    assert CUDA["03_shared_tile"].parameters == {"BM": 32, "BN": 32, "BK": 32}
    row = modeled("03_shared_tile", 1024)
    assert row["flops"] == 2 * 1024**3
    assert row["global_reads"] == 2 * 1024**3 / 32
    assert row["shared_reads"] == 2 * 1024**3
    warps_and_k = 1024**3 / 32
    # A's fours, B, and the stores of both
    assert row["shared_wavefronts"] == warps_and_k * (2 / 4 + 1 + 2 / 32)
    assert row["bank_conflicts"] == 0
    assert row["compulsory_intensity"] == pytest.approx(1024 / 6)
    assert row["memory_tflops"] == pytest.approx(4 * 1024 / 6)
    cycles = warps_and_k * (2 / 4 + 1 + 2 / 32 + 2 / 32) / 132
    l1_tflops = pytest.approx(row["flops"] / (cycles / 1.98e9) * 1e-12)
    assert (row["bound"], row["l1_tflops"], row["bound_tflops"]) == ("l1", l1_tflops, l1_tflops)
    assert (row["threads"], row["blocks_per_sm"], row["occupancy"]) == (1024, 2, 1.0)


def test_what_uses_the_tensor_cores_has_no_lowest_bound():
    row = modeled("03_shared_tile", 1024, tensor_cores=True)
    assert not {"bound", "bound_tflops"} & set(row)
    assert row["memory_tflops"] == pytest.approx(4 * 1024 / 6)


def test_a_row_is_of_all_launches_and_its_occupancy_of_the_one_with_the_most_registers(tmp_path):
    """A first launch that packs A, and a second that multiplies, with dynamic shared memory that
    depends on the device.
    """
    path = tmp_path / "kernels" / "cuda" / "20_test.cu"
    path.parent.mkdir(parents=True)
    path.write_text("""/*---
title: t
idea: i
grid: [sm_count]
block: [64]
accesses: [{global_read: thread, per_k: 2 / K}]
then:
  - function: multiply
    grid: [4]
    block: [128]
    dynamic_shared: shared_memory_per_block // 3
    accesses: [{shared_read: 2 * thread, per_k: 1}]
  - {function: add, grid: [4], block: [32], when: K > 4096, accesses: [{global_read: thread, per_k: 1}]}
---*/
""")
    kernel = kernel_file.parse(path)
    resource = {"function": "multiply", "registers": "168", "static_shared": "1000"}
    row = kernel_model.model(
        kernel, Configuration("float32", ()), Problem(64, 64, 512), resource, ENVIRONMENT
    )
    # blocks, warps, elements a thread, sectors of 32 neighbors
    assert row["global_sectors"] == 132 * 2 * 2 * 4
    assert row["shared_reads"] == 4 * 128 * 512
    assert (row["shared_wavefronts"], row["bank_conflicts"]) == (2 * 4 * 4 * 512, 4 * 4 * 512)
    assert (row["function"], row["threads"], row["registers"]) == ("multiply", 128, 168)
    assert (row["shared_bytes"], row["blocks_per_sm"], row["occupancy_limit"]) == (
        232448 // 3 + 1000,
        2,
        "shared memory",
    )


@pytest.mark.parametrize(
    ("resource", "element_type", "expected"),
    [
        ({"multiply_adds_per_clock": "0.8"}, "float32", 52.0),
        ({"multiply_adds_per_clock": ""}, "float32", None),
        ({}, "float32", None),
        ({"multiply_adds_per_clock": "0.8"}, "float64", None),
    ],
)
def test_what_a_loop_can_issue_is_a_share_of_the_peak(resource, element_type, expected):
    row = modeled("02_naive_coalesced", 64, element_type, resource=resource)
    assert row.get("issue_tflops") == expected
    assert row["bound"] != "issue"


def test_the_measured_peak_is_a_bound_of_float32_alone():
    slow = ENVIRONMENT | {"peaks": {"fp32_tflops": 1e-3, "copy_tb_s": 4.0}}
    single, double = (
        modeled("02_naive_coalesced", 64, name, environment=slow) for name in ("float32", "float64")
    )
    assert (single["bound"], single["bound_tflops"]) == ("arithmetic", 1e-3)
    assert double["bound"] != "arithmetic"


def test_a_table_has_no_row_for_what_did_not_run_or_is_gone():
    kernel = CUDA["02_naive_coalesced"]
    problem = Problem(64, 64, 64)
    ran = {name: getattr(problem, name) for name in kernel_model.KEY[2:]}
    ran |= {"kernel": kernel.name, "problem": "64", "tensor_cores": False}
    summary = pd.DataFrame(
        [
            ran | {"configuration": label}
            for label in ("BX=32 BY=8", "BX=32 BY=8", "BX=32 BY=64", "BX=32", "BX=32 OLD=8")
        ]
        + [ran | {"kernel": name, "configuration": "-"} for name in ("cublas", "99_gone")]
    )
    columns = {"status": "compiled", "function": "gemm", "registers": "32", "static_shared": "0"}
    resources = summary[["kernel", "element_type", "configuration"]].assign(**columns)
    resources.loc[resources["configuration"] == "BX=32 BY=64", "status"] = "skipped"
    compiled = tables.compiled_kernels([kernel], resources)
    (table,) = tables.models(summary, compiled, ENVIRONMENT)
    assert table["configuration"].tolist() == ["BX=32 BY=8", "BX=32"]  # that is older than BY
    assert table["bound"].tolist() == ["l1", "l1"]
    on_tensor_cores = summary.assign(tensor_cores=True)
    (table,) = tables.models(on_tensor_cores, compiled, ENVIRONMENT)
    assert table["bound"].isna().all()
