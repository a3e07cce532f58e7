"""Launch a GEMM kernel that `ladder export` of Gemm Ladder wrote: C <- alpha*A*B + beta*C,
row-major.

Needs the files beside it, Python 3.10 and the NVIDIA driver, and no package. Arrays are those of
any library that offers
`__cuda_array_interface__` or DLPack: PyTorch, JAX, CuPy, Numba, PyCUDA.
"""

import ast
import ctypes
import json
import struct
from collections.abc import Mapping
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

HERE = Path(__file__).parent
KERNEL: dict[str, Any] = json.loads((HERE / "launch.json").read_text())
_TYPES = {
    "float32": ("<f4", 4, 7),
    "float64": ("<f8", 8, 8),
    "float16": ("<f2", 2, 6),
    # which no `typestr` names, so only DLPack has it
    "bfloat16": ("bfloat16", 2, 9),
}
_BYTES = "|u1", 1, 0
_OF_AB = _TYPES.get(KERNEL["element_type"], _BYTES)
_TYPE_OF = {"a": _OF_AB, "b": _OF_AB, "c": _TYPES[KERNEL["element_type_c"]]}
_TYPE_OF |= dict.fromkeys(("scales_a", "scales_b"), _TYPES["float32"])
"""Of an array: its `typestr`, the bytes of an element, and the value of `CUtensorMapDataType` (CUDA
Driver API). Elements of 8 bits are bytes, which all libraries have.
"""
_SCALAR = ctypes.c_double if KERNEL["element_type"] == "float64" else ctypes.c_float
_DL_CUDA = (2, 13)
"""DLPack's devices whose memory the GPU reads by its address: `kDLCUDA` and `kDLCUDAManaged`
(dlpack.h).
"""
_DL_UINT, _DL_FLOAT, _DL_BFLOAT = 1, 2, 4
_DL_TENSOR = struct.Struct("P 2i i BBH PP Q")
"""`DLTensor`, with which `DLManagedTensor` begins: address, device, dimensions, type, shape and
strides, offset in bytes.
"""
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Values of `CUtensorMapSwizzle` by bytes (CUDA Driver API, as are those of `_encoded`)."""
_SM_COUNT, _SHARED_MEMORY, _CLUSTER_LAUNCH, _DYNAMIC_SHARED, _CLUSTER_DIMENSION = 16, 97, 120, 8, 4
"""Values of `CUdevice_attribute`, `CUfunction_attribute` and `CUlaunchAttributeID` (CUDA Driver
API).
"""
_ALONE = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry alone() { ret; }\n"


def gemm(
    a: Any,
    b: Any,
    c: Any,
    alpha: float = 1.0,
    beta: float = 0.0,
    stream: int = 0,
    scales: tuple[Any, ...] = (),
) -> None:
    """Queue `c <- alpha*a*b + beta*c` on a stream, given by its handle; 0 is the default stream. A
    kernel for another layout takes a as K x M, or b as N x K, and multiplies the transpose. One for
    `float8_e4m3_blocks` takes the scales of a and of b, dense, as its page lays them out.

    The arrays must be in the current context, which is the first device's if there is none. Raises
    `ValueError` for arrays that do not fit and for a problem that breaks one of the kernel's needs,
    `RuntimeError` for an error of the driver.
    """
    arrays = {
        name: _interface(name, array, stream) for name, array in {"a": a, "b": b, "c": c}.items()
    }
    (at_a, *of_a, lda), (at_b, *of_b, ldb), (at_c, *of_c, ldc) = (
        _matrix(name, array) for name, array in arrays.items()
    )
    turned = KERNEL["parameters"]["TRANS_A"], KERNEL["parameters"]["TRANS_B"]
    m, k = of_a[::-1] if turned[0] else of_a
    rows_b, n = of_b[::-1] if turned[1] else of_b
    if rows_b != k or of_c != [m, n]:
        got = ", ".join(
            f"{name} of {rows} x {columns}"
            for name, (rows, columns) in {"a": of_a, "b": of_b, "c": of_c}.items()
        )
        expected = "K x M" if turned[0] else "M x K", "N x K" if turned[1] else "K x N"
        raise ValueError(f"got {got}; expected {', '.join(expected)}, M x N")
    at_scales, sizes = [], []
    if KERNEL["element_type"] == "float8_e4m3_blocks":
        steps = -(-k // 128)
        sizes = [(steps, m), (-(-n // 128), steps + -steps % 4)]
    if len(scales) != len(sizes):
        raise ValueError(f"got {len(scales)} arrays of scales; expected {len(sizes)}")
    for name, array, shape in zip(("scales_a", "scales_b"), scales, sizes, strict=False):
        at, rows, columns, ld = _matrix(name, _interface(name, array, stream))
        if (rows, columns) != shape or ld != columns:
            wanted = f"{shape[0]} x {shape[1]} without padding"
            raise ValueError(f"{name}: got {rows} x {columns}; expected {wanted}")
        at_scales.append(c_void_p(at))
    if arrays["c"]["data"][1]:
        raise ValueError("c: got a read-only array; expected one to write to")
    module, device = _module(_context())
    problem: dict[str, float] = {"M": m, "N": n, "K": k, "lda": lda, "ldb": ldb, "ldc": ldc}
    problem |= {"alpha": alpha, "beta": beta}
    names = {**problem, **device, **KERNEL["parameters"]}
    for of, at in {"": at_a | at_b | at_c, "_a": at_a, "_b": at_b, "_c": at_c}.items():
        names[f"alignment{of}"] = (at | 16) & -(at | 16)
    for name, expression in KERNEL["where"].items():
        names[name] = _evaluate(expression, names)
    for need in KERNEL["needs"]:
        if not _evaluate(need, names):
            got = " ".join(f"{name}={value}" for name, value in problem.items())
            raise ValueError(f"{KERNEL['kernel']}: expected {need}; got {got}")
    launches = [launch for launch in KERNEL["launches"] if _evaluate(launch["when"], names)]
    shapes = [
        [_whole(value, names) for value in (*launch["grid"], launch["dynamic_shared"])]
        for launch in launches
    ]
    arguments: list[Any] = [*map(c_int, (m, n, k)), _SCALAR(alpha), c_void_p(at_a), c_int(lda)]
    arguments += [c_void_p(at_b), c_int(ldb), _SCALAR(beta), c_void_p(at_c), c_int(ldc)]
    arguments += at_scales
    workspace, queue = c_void_p(), c_void_p(stream)
    if KERNEL["workspace"]:
        size = c_size_t(max(4, _whole(KERNEL["workspace"], names)))
        _call("cuMemAllocAsync", byref(workspace), size, queue)
        arguments.append(workspace)
    try:
        starts = {"A": at_a, "B": at_b, "C": at_c, "workspace": workspace.value or 0}
        maps = [_encoded(entry, starts[entry["of"]], names) for entry in KERNEL["tensor_maps"]]
        pointers = (c_void_p * (len(arguments) + len(maps)))(
            *map(ctypes.addressof, arguments), *(at for _, at in maps)
        )
        for launch, (x, y, z, shared) in zip(launches, shapes, strict=True):
            function, name = c_void_p(), launch["function"].encode()
            _call("cuModuleGetFunction", byref(function), c_void_p(module), name)
            if shared:
                _call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, shared)
            _call(
                "cuLaunchKernel", function, x, y, z, *launch["block"], shared, queue, pointers, None
            )
    finally:
        if workspace:
            _call("cuMemFreeAsync", workspace, queue)


def _interface(name: str, array: Any, stream: int) -> Mapping[str, Any]:
    """Return the `__cuda_array_interface__` of an array, or the like of it from DLPack, which makes
    the array ready on the stream.
    """
    if _TYPE_OF[name][0] != "bfloat16" and hasattr(array, "__cuda_array_interface__"):
        return array.__cuda_array_interface__  # type: ignore[no-any-return]
    if not hasattr(array, "__dlpack__"):
        raise ValueError(
            f"{name}: got {type(array).__name__}; expected an array on a GPU, with "
            "__cuda_array_interface__ or DLPack"
        )
    device = int(array.__dlpack_device__()[0])
    if device not in _DL_CUDA:
        raise ValueError(
            f"{name}: got an array on DLPack's device {device}; expected {_DL_CUDA[0]}, a GPU"
        )
    capsule = array.__dlpack__(stream=stream or 1)  # 1 is the default stream there
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, (ctypes.py_object, ctypes.c_char_p)
    content = ctypes.string_at(pointer(capsule, b"dltensor"), _DL_TENSOR.size)
    data, _, _, dimensions, code, bits, lanes, shape, strides, offset = _DL_TENSOR.unpack(content)
    size, numbers = bits * lanes // 8, ctypes.c_int64 * dimensions
    kinds = {_DL_FLOAT: f"<f{size}", _DL_BFLOAT: "bfloat16", _DL_UINT: f"|u{size}"}
    plain = lanes == 1 and kinds.get(code)
    return {
        "typestr": plain or f"DLPack's type {code} of {bits} bits",
        "shape": tuple(numbers.from_address(shape)),
        "strides": strides and tuple(size * step for step in numbers.from_address(strides)),
        "data": (data + offset, False),
        "capsule": capsule,  # what it points to lasts as long as it does
    }


def _matrix(name: str, given: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Return the address, rows, columns and leading dimension of an array."""
    typestr, item, _ = _TYPE_OF[name]
    if given["typestr"] != typestr or len(given["shape"]) != 2 or min(given["shape"]) < 1:
        raise ValueError(
            f"{name}: got {given['typestr']} of shape {given['shape']}; expected {typestr} of two "
            "dimensions, not empty"
        )
    rows, columns = given["shape"]
    along, across = given.get("strides") or (columns * item, item)
    if rows == 1:
        along = max(along, columns * item)
    if (columns > 1 and across != item) or along % item or along < columns * item:
        raise ValueError(
            f"{name}: got strides of {along} and {across} bytes; expected rows whose elements lie "
            "side by side"
        )
    return given["data"][0], rows, columns, along // item


def _encoded(entry: Mapping[str, Any], start: int, names: Mapping[str, Any]) -> tuple[Any, int]:
    """Return the memory of a tensor map and its address in it: zeros where a map cannot describe
    the rows, which only C may have.
    """
    memory = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGNMENT)
    address = -(-ctypes.addressof(memory) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
    offset, width, height, pitch = (
        _whole(entry[key], names) for key in ("at", "width", "height", "pitch")
    )
    box = [_whole(extent, names) for extent in entry["box"]]
    if (start + offset | pitch) % 16 == 0:
        swizzle = _MAP_SWIZZLES[_whole(entry["swizzle"], names)]
        u32, u64 = ctypes.c_uint32 * 2, ctypes.c_uint64 * 2
        _call(
            "cuTensorMapEncodeTiled",
            c_void_p(address),
            _TYPE_OF["c" if entry["of"] == "C" else "a"][2],
            2,
            c_void_p(start + offset),
            u64(width, height),
            u64(pitch),
            u32(*box),
            u32(1, 1),
            0,
            swizzle,
            2,
            0,
        )
    elif entry["of"] != "C":
        raise ValueError(
            f"{KERNEL['kernel']}: expected rows of {entry['of']} that begin at multiples of 16 "
            "bytes"
        )
    return memory, address


def _evaluate(expression: str | int, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression of the kernel's header."""
    functions = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max, "bool": bool}
    return eval(_compiled(str(expression)), {"__builtins__": {}, **functions}, dict(names))


@cache
def _compiled(expression: str) -> CodeType:
    """Return the code of an expression, in which `and` and `or` give a bool, as in headers."""

    class Strict(ast.NodeTransformer):
        def visit_BoolOp(self, node: ast.BoolOp) -> ast.Call:
            self.generic_visit(node)
            return ast.Call(ast.Name("bool", ast.Load()), [node], [])

    tree = ast.fix_missing_locations(Strict().visit(ast.parse(expression, mode="eval")))
    return compile(tree, "launch.json", "eval")


def _whole(expression: str | int, names: Mapping[str, Any]) -> int:
    value = _evaluate(expression, names)
    if value != int(value) or value < 0:
        raise ValueError(f"{expression}: got {value}; expected a whole number of blocks or bytes")
    return int(value)


@cache
def _driver() -> Any:
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuInit(0):
        raise RuntimeError("cuInit failed. Check `nvidia-smi` and CUDA_VISIBLE_DEVICES")
    return driver


def _call(name: str, *arguments: Any) -> None:
    result = getattr(_driver(), name)(*arguments)
    if result:
        text = ctypes.c_char_p()
        _driver().cuGetErrorName(result, byref(text))
        raise RuntimeError(
            f"{KERNEL['kernel']}, for {KERNEL['architecture']}: {name}: "
            f"{(text.value or b'').decode() or result}"
        )


def _context() -> int:
    """Return the current context. Make the primary context of the first device current if there is
    none.
    """
    context = c_void_p()
    _call("cuCtxGetCurrent", byref(context))
    if not context:
        _call("cuDevicePrimaryCtxRetain", byref(context), 0)
        _call("cuCtxSetCurrent", context)
    return context.value or 0


@cache
def _module(context: int) -> tuple[int, dict[str, int]]:
    """Return the cubin loaded into a context, which must be current, and what expressions know of
    its device.
    """
    module, device, values = c_void_p(), c_int(), {}
    _call("cuCtxGetDevice", byref(device))
    asked = {"sm_count": _SM_COUNT, "shared_memory_per_block": _SHARED_MEMORY}
    for name, attribute in asked.items():
        value = c_int()
        _call("cuDeviceGetAttribute", byref(value), attribute, device)
        values[name] = value.value
    if "clusters_of_4" in KERNEL["device"]:
        values["clusters_of_4"] = _clusters_of_4(device, values["shared_memory_per_block"])
    _call("cuModuleLoadData", byref(module), (HERE / KERNEL["cubin"]).read_bytes())
    return module.value or 0, values


def _clusters_of_4(device: c_int, shared: int) -> int:
    """Return how many clusters of four blocks run at once if each block has an SM to itself; 0 on a
    GPU without clusters.

    It is the driver's answer for a function whose blocks request the most shared memory.
    """
    module, function, clusters = c_void_p(), c_void_p(), c_int()
    _call("cuDeviceGetAttribute", byref(clusters), _CLUSTER_LAUNCH, device)
    if not clusters:
        return 0
    # `CUlaunchAttribute`: 4 bytes for its id, 4 of padding, and 64 for its value
    attribute = ctypes.create_string_buffer(struct.pack("I4x 3I52x", _CLUSTER_DIMENSION, 4, 1, 1))
    at = ctypes.addressof(attribute)
    # `CUlaunchConfig`: grid, block, shared memory, stream, attributes and their number
    config = struct.pack("3I 3I I PPI", 4, 1, 1, 32, 1, 1, shared, 0, at, 1)
    _call("cuModuleLoadData", byref(module), _ALONE)
    _call("cuModuleGetFunction", byref(function), module, b"alone")
    _call("cuFuncSetAttribute", function, _DYNAMIC_SHARED, shared)
    _call("cuOccupancyMaxActiveClusters", byref(clusters), function, config)
    _call("cuModuleUnload", module)
    return clusters.value
