"""Run a kernel written for Hopper on the CPU: g++ compiles it with headers that simulate its
instructions (hopper/simulator.h).

It finds wrong results and waits for the wrong thing, under one random order of warps and of
asynchronous copies for each seed. It finds no missing fence, and says nothing of time.
"""

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from host import scales_of
from ladder.devices.operands import GUARD, scalars
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from problems import stored

HERE = Path(__file__).resolve().parent / "hopper"
REPLACED = (
    "async.cuh",
    "bulk.cuh",
    "cluster.cuh",
    "half.cuh",
    "tensor_map.cuh",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_fp8.h",
)
"""Headers whose functions `simulator.h` has."""
SHARED = re.compile(r"extern __shared__ __align__\(1024\) uint8_t shared\[\];")
VARIABLE = re.compile(r"__shared__ (\w+) (\w+)(\[.+\]);")
FUNCTION = re.compile(
    r'extern "C" __global__ void(?P<attributes>[^{;]*?)\b(?P<name>\w+)\(int '
    r"M(?P<arguments>[^{]*)\)\s*{"
)
CLUSTER = re.compile(r"__cluster_dims__\((.+?), 1, 1\)")
_RUN = """
extern "C" const char* run_{name}(int M, int N, int K, float alpha, const T* A, int lda, const T* B, int ldb, float beta, Out* C, int ldc,
                                  const long long* batch, const float* const* scales, void* workspace, const TensorMap* maps,
                                  const unsigned* grid, unsigned block, int shared, unsigned seed) {{
  return hopper::run([=] {{ {name}(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc{extra}); }}, {cluster}, grid, block, shared, seed);
}}
"""


class Map(ctypes.Structure):
    """`TensorMap` of simulator.h."""

    _fields_ = (
        ("first", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("height", ctypes.c_int64),
        ("pitch", ctypes.c_int64),
        ("apart", ctypes.c_int64),
        ("box_width", ctypes.c_int32),
        ("box_height", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("rest", ctypes.c_uint8 * 76),
    )


def _compile(*arguments: str | Path) -> None:
    flags = ["-std=c++17", "-O1", "-march=native", "-ffp-contract=off", "-w", "-fPIC"]
    command = ["g++", *flags, "-U_FORTIFY_SOURCE", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]


@cache
def _simulator() -> Any:
    """A temporary folder with what all kernels share, compiled once a process: the simulator, which
    takes longer than most kernels, and its header.
    """
    folder = tempfile.TemporaryDirectory()
    made = Path(folder.name)
    _compile("-x", "c++-header", HERE / "simulator.h", "-o", made / "simulator.h.gch")
    _compile("-O2", "-c", HERE / "simulator.cpp", "-o", made / "simulator.o")
    return folder


def build(source: str, include: Path, folder: Path) -> ctypes.CDLL:
    """Compile the source of a configuration, and load it."""
    headers = folder / "headers"
    headers.mkdir(parents=True)
    for path in include.iterdir():
        text = VARIABLE.sub(r"auto& \2 = shared_variable<\1\3, __COUNTER__>();", path.read_text())
        (headers / path.name).write_text(text)
    for name in REPLACED:
        (headers / name).write_text("")
    (headers / "wgmma.cuh").write_text('#include "store_sums.cuh"\n')
    before, own = source.split("#line 1", 1)
    text = (
        f'{before}#include "element.h"\n#line '
        f"1{SHARED.sub('uint8_t* shared = dynamic_shared();', own)}"
    )
    for match in FUNCTION.finditer(text):
        maps = match["arguments"].count("TensorMap ")
        pointer = re.search(r"(\w+)\* __restrict__ workspace", match["arguments"])
        batch = "#define BATCH 1" in before
        extra = ", Batch{int(*batch), batch[1], batch[2], batch[3]}" if batch else ""
        extra += ", scales[0], scales[1]" if "scales_a" in match["arguments"] else ""
        extra += f", static_cast<{pointer[1]}*>(workspace)" if pointer else ""
        extra += "".join(f", maps[{index}]" for index in range(maps))
        cluster = CLUSTER.search(match["attributes"])
        text += _RUN.format(name=match["name"], extra=extra, cluster=cluster[1] if cluster else 1)
    (folder / "kernel.cpp").write_text(CLUSTER.sub("", text))
    made = folder / "kernel.so"
    shared = Path(_simulator().name)
    headers_first = ("-include", "simulator.h", f"-I{shared}", f"-I{headers}", f"-I{HERE}")
    _compile(*headers_first, "-shared", "-o", made, folder / "kernel.cpp", shared / "simulator.o")
    return ctypes.CDLL(str(made))


def run(
    library: ctypes.CDLL,
    kernel: Kernel,
    configuration: Configuration,
    problem: Problem,
    device: Mapping[str, int],
    seed: int,
) -> Any:
    """Launch on a problem. Return the buffer of C afterwards, or what the simulator complains
    of.
    """
    given = problem.names() | device
    arrays, places = stored(problem)
    matrices = list(map(_aligned, arrays))
    starts = [
        matrix.ctypes.data + matrix.itemsize * place.first
        for matrix, place in zip(matrices, places, strict=True)
    ]
    size = kernel.workspace_of(configuration, given) or 0
    memory = _aligned(np.full(size + 128, 0xFF, np.uint8))
    addresses = dict(zip("ABC", starts, strict=True)) | {"workspace": memory.ctypes.data}
    extents = {name: (p.cols, p.rows) for name, p in zip("ABC", places, strict=True)}
    maps = (Map * 4)()
    for index, tensor_map in enumerate(kernel.maps(configuration, given)):
        if tensor_map.aligned:
            maps[index] = Map(
                addresses[tensor_map.of] + tensor_map.at,
                *extents.get(tensor_map.of, (tensor_map.width, tensor_map.height)),
                tensor_map.pitch,
                tensor_map.stride,
                *tensor_map.box,
                tensor_map.size,
            )
    alpha, beta = (ctypes.c_float(float(factor)) for factor in scalars(problem))
    a, b, c, workspace = (ctypes.c_void_p(at) for at in (*starts, memory.ctypes.data))
    lda, ldb, ldc = (place.ld for place in places)
    scales = [_aligned(each.ravel()) for each in scales_of(problem)]
    at_scales = (ctypes.c_void_p * 2)(*(each.ctypes.data for each in scales))
    arguments = (problem.m, problem.n, problem.k, alpha, a, lda, b, ldb, beta, c, ldc)
    for shape in kernel.launches(configuration, given):
        launch = library[f"run_{shape.function}"]
        launch.restype = ctypes.c_char_p
        grid = (ctypes.c_uint * 3)(*shape.grid)
        shape_of_launch = grid, shape.block[0], shape.dynamic_shared, seed
        batch = (ctypes.c_longlong * 4)(problem.batch, *problem.strides)
        complaint = launch(*arguments, batch, at_scales, workspace, maps, *shape_of_launch)
        if complaint:
            return complaint.decode()
    return matrices[2]


def _aligned(array: Any) -> Any:
    """A copy that begins at a multiple of 128 bytes, as device memory does; GUARD elements are a
    multiple of that.
    """
    assert GUARD * array.itemsize % 128 == 0
    room = np.empty(array.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 128
    copy = room[first : first + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy
