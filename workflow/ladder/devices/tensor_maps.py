"""Encode tensor maps by the CUDA driver."""

from ctypes import string_at
from functools import lru_cache

from cuda.bindings import driver

from ladder.devices.base import Refused
from ladder.model.tensor_map import MAP_BYTES, TensorMap

_TYPES = {"float32": "FLOAT32", "float64": "FLOAT64", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}


@lru_cache(maxsize=4096)
def encoded(matrix: TensorMap, element_type: str, address: int) -> bytes:
    """Return the map of a matrix at `address` as kernels get it: zeros if its rows do not begin
    where a map needs it.

    Raises `Refused` if the driver does not take the map.
    """
    if not matrix.aligned:
        return bytes(MAP_BYTES)
    swizzle = f"{matrix.swizzle}B" if matrix.swizzle else "NONE"
    status, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType[f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[element_type]}"],
        2,
        address,
        [driver.cuuint64_t(extent) for extent in (matrix.width, matrix.height)],
        [driver.cuuint64_t(matrix.pitch)],
        [driver.cuuint32_t(extent) for extent in matrix.box],
        [driver.cuuint32_t(1)] * 2,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle[f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"],
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise Refused(
            "launch_error", f"tensor_maps: the driver does not encode {matrix}: {status.name}"
        )
    return string_at(made.getPtr(), MAP_BYTES)
