"""Tensor maps: matrices and boxes that a kernel's header describes, and that the CUDA driver encodes
for the GPU's copy engine.
"""

from collections.abc import Mapping
from ctypes import string_at
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ladder.core.expressions import Number, evaluate_int
from ladder.core.types import ELEMENT_TYPES

MAP_BYTES = 128
"""Size of an encoded map (CUDA Driver API, "Tensor Map Object Management")."""
PIECE = 16
"""Bytes of which addresses, row lengths of boxes and distances of rows are multiples."""
MOST = 256
"""The most rows, and the most elements of a row, of a box."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes of a row of a box within which pieces change places; 0: none does."""
_MATRICES = {
    "A": ("M if TRANS_A else K", "K if TRANS_A else M", "lda"),
    "B": ("K if TRANS_B else N", "N if TRANS_B else K", "ldb"),
    "C": ("N", "M", "ldc"),
}
"""Width, height and leading dimension of the operands as they lie in memory, by the names in
expressions.
"""


@dataclass(frozen=True)
class TensorMap:
    """A matrix of `width` x `height` elements, of the type of C or else that of A and B, and the
    box of it that one copy moves.
    """

    of: str
    """`A`, `B`, `C` or `workspace`, `at` bytes from whose beginning the matrix begins."""
    at: int
    width: int
    height: int
    pitch: int
    """Bytes from one row to the next."""
    box: tuple[int, int]
    """Elements of a row, and rows."""
    swizzle: int
    size: int
    """Bytes per element."""
    aligned: bool = True
    """Whether its rows begin at multiples of `PIECE` bytes."""
    count: int = 1
    """The matrices of a batch, which are the third dimension of a map; 1 for a map of two."""
    stride: int = 0
    """Bytes from one of them to the next."""


def expressions(entry: Mapping[str, Any], names: Mapping[str, Number]) -> dict[str, Any]:
    """Return an entry of a header's `tensor_maps` with the place of an operand written out as that
    of a workspace is, and with the `size` of an element. `names` are those of a configuration.
    """
    size = int(names["element_size_c" if entry["of"] == "C" else "element_size"])
    if entry["of"] == "workspace":
        return {**entry, "size": size}
    width, height, leading = _MATRICES[entry["of"]]
    return {
        **entry,
        "at": 0,
        "width": width,
        "height": height,
        "pitch": f"{leading} * {size}",
        "size": size,
    }


def tensor_map(entry: Mapping[str, Any], names: Mapping[str, Number]) -> TensorMap:
    """Return the map that an entry of a header's `tensor_maps` describes on a problem."""
    entry = expressions(entry, names)
    at, width, height, pitch = (
        evaluate_int(entry[key], names) for key in ("at", "width", "height", "pitch")
    )
    of_batch = entry["of"] != "workspace" and names.get("batch", 1) > 1
    count = int(names["batch"]) if of_batch else 1
    stride = int(names[f"stride_{entry['of'].lower()}"] * entry["size"]) if of_batch else 0
    across, down = (evaluate_int(extent, names) for extent in entry["box"])
    aligned = (
        entry["of"] == "workspace"
        or (pitch | int(names[f"alignment_{entry['of'].lower()}"])) % PIECE == 0
    )
    return TensorMap(
        entry["of"],
        at,
        width,
        height,
        pitch,
        (across, down),
        evaluate_int(entry["swizzle"], names),
        entry["size"],
        aligned,
        count,
        stride,
    )


def data_type(of: str, size: int, element_type: str) -> str:
    """Return the type of a map's elements of so many bytes, as `CUtensorMapDataType` names it."""
    element = ELEMENT_TYPES[element_type]
    return "UINT8" if size == 1 else (element.of_c if of == "C" else element).name.upper()


@lru_cache(maxsize=4096)
def encoded(matrix: TensorMap, element_type: str, address: int) -> bytes:
    """Return the map of a matrix at `address` as kernels get it: zeros if its rows do not begin
    where a map needs it.

    Raises `ValueError` if the driver does not take the map.
    """
    from cuda.bindings import driver  # here, because planning does without it

    if not matrix.aligned:
        return bytes(MAP_BYTES)
    swizzle = f"{matrix.swizzle}B" if matrix.swizzle else "NONE"
    several = int(matrix.count > 1)
    extents = [matrix.width, matrix.height, *([matrix.count] * several)]
    data = data_type(matrix.of, matrix.size, element_type)
    status, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType[f"CU_TENSOR_MAP_DATA_TYPE_{data}"],
        len(extents),
        address,
        [driver.cuuint64_t(extent) for extent in extents],
        [driver.cuuint64_t(each) for each in (matrix.pitch, *([matrix.stride] * several))],
        [driver.cuuint32_t(extent) for extent in (*matrix.box, *([1] * several))],
        [driver.cuuint32_t(1)] * len(extents),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle[f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"],
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ValueError(f"tensor_maps: the driver does not encode {matrix}: {status.name}")
    return string_at(made.getPtr(), MAP_BYTES)


def objection(matrix: TensorMap, workspace: int | None) -> str:
    """Return why the host cannot encode a map, or "". `workspace` is the bytes of it, if the kernel
    has one.

    A C whose rows begin elsewhere is no obstacle: the kernel gets zeros in place of its map, and
    stores C without it.
    """
    across, down = matrix.box
    row = matrix.width * matrix.size
    end = matrix.at + (matrix.height - 1) * matrix.pitch + row
    if matrix.swizzle not in SWIZZLES:
        return f"swizzle: got {matrix.swizzle}; expected {', '.join(map(str, SWIZZLES))}"
    if not (1 <= across <= MOST and 1 <= down <= MOST):
        return f"box: got {across} x {down} elements; expected 1 to {MOST} each way"
    copied = across * matrix.size
    if copied % PIECE or (matrix.swizzle and copied > matrix.swizzle):
        most = f", at most the {matrix.swizzle} bytes of swizzle" if matrix.swizzle else ""
        return f"box: got rows of {copied} bytes; expected a multiple of {PIECE}{most}"
    if matrix.of == "workspace":
        room = workspace or 0
        if min(matrix.at, matrix.width - 1, matrix.height - 1) < 0 or end > room:
            return f"got bytes {matrix.at} to {end} of the workspace; expected at most its {room}"
        if (matrix.at | matrix.pitch) % PIECE or matrix.pitch < row:
            return (
                f"got rows of {row} bytes, {matrix.pitch} apart, from byte {matrix.at} on; "
                f"expected them apart, by multiples of {PIECE}"
            )
    if not matrix.aligned and matrix.of != "C":
        return f"needs rows of {matrix.of} that begin at multiples of {PIECE} bytes"
    return ""
