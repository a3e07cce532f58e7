"""Tensor maps: matrices and boxes that a kernel's header describes, and that the host encodes for
the GPU's copy engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ladder.core.expressions import Number, evaluate_int

MAP_BYTES = 128
"""Size of an encoded map (CUDA Driver API, "Tensor Map Object Management")."""
PIECE = 16
"""Bytes of which addresses, row lengths of boxes and distances of rows are multiples."""
MOST = 256
"""The most rows, and the most elements of a row, of a box."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes of a row of a box within which pieces change places; 0: none does."""
_MATRICES = {"A": ("K", "M", "lda"), "B": ("N", "K", "ldb"), "C": ("N", "M", "ldc")}
"""Width, height and leading dimension of the operands, by their names in expressions."""


@dataclass(frozen=True)
class TensorMap:
    """A matrix of the kernel's element type, `width` x `height` elements, and the box of it that
    one copy moves.
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
    aligned: bool = True
    """Whether its rows begin at multiples of `PIECE` bytes."""


def expressions(entry: Mapping[str, Any], element_size: int) -> dict[str, Any]:
    """Return an entry of a header's `tensor_maps` with the place of an operand written out as that
    of a workspace is.
    """
    if entry["of"] == "workspace":
        return dict(entry)
    width, height, leading = _MATRICES[entry["of"]]
    return {
        **entry,
        "at": 0,
        "width": width,
        "height": height,
        "pitch": f"{leading} * {element_size}",
    }


def tensor_map(entry: Mapping[str, Any], names: Mapping[str, Number]) -> TensorMap:
    """Return the map that an entry of a header's `tensor_maps` describes on a problem."""
    entry = expressions(entry, int(names["element_size"]))
    at, width, height, pitch = (
        evaluate_int(entry[key], names) for key in ("at", "width", "height", "pitch")
    )
    across, down = (evaluate_int(extent, names) for extent in entry["box"])
    own = entry["of"] == "workspace"
    aligned = own or (pitch | int(names[f"alignment_{entry['of'].lower()}"])) % PIECE == 0
    return TensorMap(
        entry["of"],
        at,
        width,
        height,
        pitch,
        (across, down),
        evaluate_int(entry["swizzle"], names),
        aligned,
    )


def objection(matrix: TensorMap, element_size: int, workspace: int | None) -> str:
    """Return why the host cannot encode a map, or "". `workspace` is the bytes of it, if the kernel
    has one.

    A C whose rows begin elsewhere is no obstacle: the kernel gets zeros in place of its map, and
    stores C without it.
    """
    (across, down), row, end = (
        matrix.box,
        matrix.width * element_size,
        matrix.at + (matrix.height - 1) * matrix.pitch + matrix.width * element_size,
    )
    if matrix.swizzle not in SWIZZLES:
        return f"swizzle: got {matrix.swizzle}; expected {', '.join(map(str, SWIZZLES))}"
    if not (1 <= across <= MOST and 1 <= down <= MOST):
        return f"box: got {across} x {down} elements; expected 1 to {MOST} each way"
    if across * element_size % PIECE or (matrix.swizzle and across * element_size > matrix.swizzle):
        most = f", at most the {matrix.swizzle} bytes of swizzle" if matrix.swizzle else ""
        return (
            f"box: got rows of {across * element_size} bytes; expected a multiple of {PIECE}{most}"
        )
    if matrix.of == "workspace" and (
        min(matrix.at, matrix.width - 1, matrix.height - 1) < 0 or end > (workspace or 0)
    ):
        return (
            f"got bytes {matrix.at} to {end} of the workspace; expected at most its "
            f"{workspace or 0}"
        )
    if matrix.of == "workspace" and ((matrix.at | matrix.pitch) % PIECE or matrix.pitch < row):
        return (
            f"got rows of {row} bytes, {matrix.pitch} apart, from byte {matrix.at} on; expected "
            f"them apart, by multiples of {PIECE}"
        )
    return (
        ""
        if matrix.aligned or matrix.of == "C"
        else f"needs rows of {matrix.of} that begin at multiples of {PIECE} bytes"
    )
