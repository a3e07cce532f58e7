"""Encode tensor maps by the CUDA driver."""

from collections.abc import Mapping
from ctypes import string_at
from functools import lru_cache

from cuda.bindings import driver

from ladder.devices.base import Refused
from ladder.model.tensor_map import MAP_BYTES, TensorMap

_TYPES = {"float32": "FLOAT32", "float64": "FLOAT64", "float16": "FLOAT16"}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


def encoded(one: TensorMap, element_type: str, addresses: Mapping[str, int]) -> bytes:
    """Return a map as a kernel gets it: zeros if the rows do not begin where a map needs it.

    `addresses` are those of A, B, C and the workspace. Raises `Refused` if the driver does not take the map.
    """
    return _encode(one, element_type, addresses[one.of] + one.at) if one.aligned else bytes(MAP_BYTES)


@lru_cache(maxsize=4096)
def _encode(one: TensorMap, element_type: str, address: int) -> bytes:
    status, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType[f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[element_type]}"],
        2, address,
        [driver.cuuint64_t(extent) for extent in (one.width, one.height)], [driver.cuuint64_t(one.pitch)],
        [driver.cuuint32_t(extent) for extent in one.box], [driver.cuuint32_t(1)] * 2,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle[f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[one.swizzle]}"],
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )  # fmt: skip
    if status != driver.CUresult.CUDA_SUCCESS:
        raise Refused("launch_error", f"tensor_maps: the driver does not encode {one}: {status.name}")
    return string_at(made.getPtr(), MAP_BYTES)
