"""A CUDA driver that is not there: a library in place of libcuda that prints what a program asks of
it.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda.bindings import driver
from drivers import compile_library
from ladder.core.types import ELEMENT_TYPES
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from ladder.model.tensor_map import data_type

SM_COUNT, SHARED, CLUSTERS, WORKSPACE = 132, 232448, 30, 0x7000000
SOURCE = f"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef unsigned long long address;
int cuInit(unsigned flags) {{ return 0; }}
int cuCtxGetCurrent(void **context) {{ *context = getenv("NO_CONTEXT") ? 0 : (void *)1; return 0; }}
int cuDevicePrimaryCtxRetain(void **context, int device) {{ *context = (void *)2; return printf("retain %d\\n", device) < 0; }}
int cuCtxSetCurrent(void *context) {{ return printf("context %d\\n", (int)(address)context) < 0; }}
int cuCtxGetDevice(int *device) {{ *device = 0; return 0; }}
int cuDeviceGetAttribute(int *value, int which, int device) {{
  *value = which == 16 ? {SM_COUNT} : which == 97 ? {SHARED} : which == 120 ? !getenv("NO_CLUSTERS") : 0;
  return which != 16 && which != 97 && which != 120;
}}
int cuModuleLoadData(void **module, const char *image) {{
  *module = (void *)5;
  return strncmp(image, "cubin", 5) && strncmp(image, ".version 7.8\\n.target sm_90\\n", 27) ? 209 : 0;
}}
int cuModuleLoad(void **module, const char *path) {{
  char image[9] = "";
  FILE *file = fopen(path, "r");
  return file && fread(image, 1, 8, file) && !fclose(file) ? cuModuleLoadData(module, image) : 301;
}}
int cuModuleUnload(void *module) {{ return 0; }}
int cuModuleGetFunction(void **function, void *module, const char *name) {{ *function = strdup(name); return 0; }}
int cuFuncSetAttribute(void *function, int which, int value) {{
  return printf("%s: attribute %d %d\\n", (char *)function, which, value) < 0;
}}
struct config {{ unsigned grid[3], block[3], shared; void *stream; unsigned *attribute, attributes; }};
int cuOccupancyMaxActiveClusters(int *clusters, void *function, struct config *given) {{
  unsigned *grid = given->grid, *block = given->block, *attribute = given->attribute;
  *clusters = {CLUSTERS};
  return printf("%s: %u of attribute %u, clusters of %u %u %u, %u %u %u, %u %u %u, %u\\n", (char *)function, given->attributes, attribute[0],
                attribute[2], attribute[3], attribute[4], grid[0], grid[1], grid[2], block[0], block[1], block[2], given->shared) < 0;
}}
int cuMemAllocAsync(address *at, size_t size, void *stream) {{
  *at = {WORKSPACE};
  return printf("allocate %zu on %d\\n", size, (int)(address)stream) < 0;
}}
int cuMemFreeAsync(address at, void *stream) {{ return printf("free %llx on %d\\n", at, (int)(address)stream) < 0; }}
int cuTensorMapEncodeTiled(address *map, int type, unsigned rank, address at, address *extents, address *pitches, unsigned *box,
                           unsigned *steps, int interleave, int swizzle, int promotion, int fill) {{
  *map = at;
  return printf("map %d %u %llx %llu %llu %llu %u %u %u %u %d %d %d %d %d\\n", type, rank, at, extents[0], extents[1], pitches[0], box[0],
                box[1], steps[0], steps[1], interleave, swizzle, promotion, fill, (int)((address)map % 64)) < 0;
}}
int cuGetErrorName(int result, const char **name) {{ *name = result == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR"; return 0; }}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {{
  printf("%s: %u %u %u, %u %u %u, %u on %d:", (char *)function, x, y, z, bx, by, bz, shared, (int)(address)stream);
  for (const char *at = getenv("ARGUMENT_SIZES"); *at; ++at, ++arguments)
    for (int byte = printf(" ") - 1; byte < *at - '0'; ++byte) printf("%02x", ((unsigned char *)*arguments)[byte]);
  return printf("\\n") < 0 || (getenv("FAILS") && !strcmp(getenv("FAILS"), function));
}}
"""
DEVICE = {"sm_count": SM_COUNT, "shared_memory_per_block": SHARED, "clusters_of_4": CLUSTERS}
"""What headers' expressions know of the device."""


def clusters_query(function: str) -> list[str]:
    """The lines of the query for `clusters_of_4`."""
    return [
        f"{function}: attribute 8 {SHARED}",
        f"{function}: 1 of attribute 4, clusters of 4 1 1, 4 1 1, 32 1 1, {SHARED}",
    ]


def make(folder: Path) -> None:
    """Compile the library into a folder."""
    for name in ("libcuda.so.1", "libcuda.so"):
        compile_library(SOURCE, folder / name)


def scales(element_type: str) -> list[int]:
    """Return addresses of the scales of A and of B, if the element type has any."""
    return [4 << 28, 5 << 28] if ELEMENT_TYPES[element_type].block else []


def sizes(kernel: Kernel, configuration: Configuration) -> str:
    """Return the bytes of each argument, as the library takes them from its environment."""
    scalar = 8 if configuration.element_type == "float64" else 4
    return (
        f"444{scalar}8484{scalar}84"
        + "8" * len(scales(configuration.element_type))
        + ("8" if kernel.workspace else "")
        + "8" * len(kernel.tensor_maps)
    )


def expected(
    kernel: Kernel,
    configuration: Configuration,
    problem: Problem,
    at: Mapping[str, int],
    stream: int,
    device: Mapping[str, int] = DEVICE,
) -> list[str]:
    """Return the lines of the launches that the pipeline would make on the device."""
    names: dict[str, Any] = {**problem.names(), **device}
    scalar = "d" if configuration.element_type == "float64" else "f"
    values = [
        *(("i", size) for size in (problem.m, problem.n, problem.k)),
        (scalar, problem.alpha),
        ("Q", at["a"]),
        ("i", problem.lda),
        ("Q", at["b"]),
        ("i", problem.ldb),
        (scalar, problem.beta),
        ("Q", at["c"]),
        ("i", problem.ldc),
        *(("Q", address) for address in scales(problem.element_type)),
    ]
    size = kernel.workspace_of(configuration, names)
    values += [] if size is None else [("Q", WORKSPACE)]
    lines = [] if size is None else [f"allocate {size} on {stream}"]
    for matrix in kernel.maps(configuration, names):
        start = {"A": at["a"], "B": at["b"], "C": at["c"], "workspace": WORKSPACE}[
            matrix.of
        ] + matrix.at
        # of a map, the library fills in where the matrix begins
        values.append(("Q", start if matrix.aligned else 0))
        if matrix.aligned:
            kind, swizzle = (
                driver.CUtensorMapDataType[
                    "CU_TENSOR_MAP_DATA_TYPE_"
                    + data_type(matrix.of, matrix.size, configuration.element_type)
                ],
                getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{matrix.swizzle}B"),
            )
            lines.append(
                f"map {int(kind)} 2 {start:x} {matrix.width} {matrix.height} {matrix.pitch} "
                f"{matrix.box[0]} {matrix.box[1]} 1 1 0 "
                f"{int(swizzle)} "
                f"{int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B)} 0 0"
            )
    arguments = "".join(f" {struct.pack(kind, value).hex()}" for kind, value in values)
    for shape in kernel.launches(configuration, names):
        if shape.dynamic_shared:
            lines.append(f"{shape.function}: attribute 8 {shape.dynamic_shared}")
        grid, block = (" ".join(map(str, extents)) for extents in (shape.grid, shape.block))
        lines.append(
            f"{shape.function}: {grid}, {block}, {shape.dynamic_shared} on {stream}:{arguments}"
        )
    return lines + ([] if size is None else [f"free {WORKSPACE:x} on {stream}"])


def addresses(problem: Problem) -> dict[str, int]:
    """Return addresses of A, B and C, as far from aligned ones as the problem says."""
    size = ELEMENT_TYPES[problem.element_type].size
    return {
        name: (number + 1 << 28) + offset * size
        for number, (name, offset) in enumerate(zip("abc", problem.offsets, strict=True))
    }
