"""cuBLASLt: the algorithms of its heuristic on a problem, and those that a search finds.

What the functions, attributes and their values mean is in `cublasLt.h` and in the cuBLAS
documentation, "Using the cuBLASLt API".
"""

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from operator import mul
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from ladder.devices.algorithm_search import Algorithm, Spaces, fastest
from ladder.devices.base import Call
from ladder.devices.operands import scalars
from ladder.model.baselines import ALGORITHMS
from ladder.model.problem import Problem

if TYPE_CHECKING:
    from ladder.devices.cuda import Cuda  # cannot be imported without a driver

# Without what nvmath-python's packages import, which is all of NVIDIA's mathematical libraries: they
# would make each worker start later.
for package in ("nvmath", "nvmath.bindings"):
    if (spec := find_spec(package)) and package not in sys.modules:
        sys.modules[package] = module_from_spec(spec)
cublasLt = import_module("nvmath.bindings.cublasLt")
_CONFIG = cublasLt.MatmulAlgoConfigAttribute
PARAMETERS = {
    "ID": _CONFIG.ID,
    "TILE": _CONFIG.TILE_ID,
    "STAGES": _CONFIG.STAGES_ID,
    "SPLITK": _CONFIG.SPLITK_NUM,
    "REDUCTION": _CONFIG.REDUCTION_SCHEME,
    "SWIZZLE": _CONFIG.CTA_SWIZZLING,
    "CUSTOM": _CONFIG.CUSTOM_OPTION,
    "INNER": _CONFIG.INNER_SHAPE_ID,
    "CLUSTER": _CONFIG.CLUSTER_SHAPE_ID,
}
"""The parameters of an algorithm, as its label has them."""
SCALE_MODES = cublasLt.MatmulMatrixScale.VEC128_32F, cublasLt.MatmulMatrixScale.BLK128x128_32F
"""Of A and of B."""
SPLITS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""The parts of K that are tried."""
SCHEMES = (1, 2, 4)
"""How parts of K may be added up (cublasLtReductionScheme_t)."""
NOT_SUPPORTED = 15
"""CUBLAS_STATUS_NOT_SUPPORTED (cublas_api.h)."""
MOST_IDS = 256
"""More algorithms than cuBLASLt has."""
SHORT_US = 5000.0
"""A launch that takes longer than this is timed once, where others are timed four times."""


def operations(problem: Problem) -> tuple[int, int]:
    """Return the values of `cublasOperation_t` for B and for A, in the order in which cuBLAS gets
    them: 0, CUBLAS_OP_N, or 1, CUBLAS_OP_T.
    """
    turned_a, turned_b, _ = problem.transposed
    return int(turned_b), int(turned_a)


class Matmul:
    """The present problem of a device as cuBLASLt takes it.

    A and B change places, as in `cublas`. The descriptors stay as long as the process: some hundred
    bytes.
    """

    def __init__(
        self,
        device: "Cuda",
        light: int,
        workspace: tuple[int, int],
        types: tuple[int, int, int, int],
        fast: bool,
    ) -> None:
        compute, scale, data, data_c = types
        p = device.given
        self.device, self.light, self.workspace = device, light, workspace
        self.alpha, self.beta = (np.array([value]) for value in scalars(p))
        self.types = (compute, scale, data, data, data_c, data_c)
        how = cublasLt.matmul_desc_create(compute, scale)
        if sms := device.blas.sms:
            target, most = cublasLt.MatmulDescAttribute.SM_COUNT_TARGET, np.array([sms], np.int32)
            cublasLt.matmul_desc_set_attribute(how, target, most.ctypes.data, most.nbytes)
        if fast:
            mode, on = cublasLt.MatmulDescAttribute.FAST_ACCUM, np.ones(1, np.int8)
            cublasLt.matmul_desc_set_attribute(how, int(mode), on.ctypes.data, on.nbytes)
        self._set_scales(how, "MODE", SCALE_MODES if device.first()[3:] else ())
        self._set_scales(how, "POINTER", device.first()[3:])
        kinds = cublasLt.MatmulDescAttribute.TRANSA, cublasLt.MatmulDescAttribute.TRANSB
        for kind, operation in zip(kinds, operations(p), strict=True):
            value = np.array([operation], np.int32)
            cublasLt.matmul_desc_set_attribute(how, int(kind), value.ctypes.data, value.nbytes)
        # as column-major matrices of the other sides
        of_a, of_b, of_c = (
            cublasLt.matrix_layout_create(kind, columns, rows, ld)
            for kind, (rows, columns), ld in zip(
                (data, data, data_c), p.shapes, (p.lda, p.ldb, p.ldc), strict=True
            )
        )
        for described, stride in zip((of_a, of_b, of_c), p.strides, strict=True):
            batch = {"BATCH_COUNT": np.array([p.batch], np.int32)}
            batch["STRIDED_BATCH_OFFSET"] = np.array([stride], np.int64)
            for name, value in batch.items() if p.batched else ():
                attribute = int(cublasLt.MatrixLayoutAttribute[name])
                cublasLt.matrix_layout_set_attribute(
                    described, attribute, value.ctypes.data, value.nbytes
                )
        self.described = (how, of_b, of_a, of_c, of_c)
        # each launch of a sample has its own rows of B: all begin on a 16-byte boundary, or none
        # does
        self.alignment = min(16, int(p.names()["alignment"]))
        self.rows = math.gcd(self.alignment, *map(mul, p.sizes, (p.lda, p.ldb, p.ldc)))

    def _set_scales(self, how: int, what: str, of: Sequence[int]) -> None:
        """Set the mode or the pointer of the scales of A and of B, which are cuBLASLt's B and A."""
        for matrix, number in zip("BA", of, strict=False):
            kind = cublasLt.MatmulDescAttribute[f"{matrix}_SCALE_{what}"]
            value = np.array([number], np.int32 if what == "MODE" else np.uint64)
            cublasLt.matmul_desc_set_attribute(how, int(kind), value.ctypes.data, value.nbytes)

    def offered(self, id: int | None = None) -> list[Any]:
        """Return the algorithms of the heuristic (cublasLtMatmulAlgoGetHeuristic), its favorite
        first: of all, or of those with one `id`. In 8 bits it has none for rows that do not begin
        at 16 bytes.
        """
        found = np.zeros(ALGORITHMS, cublasLt.matmul_heuristic_result_dtype)
        wishes: dict[str, Any] = {
            f"MIN_ALIGNMENT_{matrix}_BYTES": np.array([self.alignment], np.uint32)
            for matrix in "ABCD"
        }
        wishes["MAX_WORKSPACE_BYTES"] = np.array([self.workspace[1]], np.uint64)
        if id is not None:
            limited = cublasLt.MatmulSearch.LIMITED_BY_ALGO_ID
            wishes["SEARCH_MODE"] = np.array([limited], np.uint32)
            found["algo"] = self._initial(id)
        preference, wish = cublasLt.matmul_preference_create(), cublasLt.MatmulPreferenceAttribute
        for name, value in wishes.items():
            cublasLt.matmul_preference_set_attribute(
                preference, int(wish[name]), value.ctypes.data, value.nbytes
            )
        count = np.zeros(1, np.int32)
        try:
            cublasLt.matmul_algo_get_heuristic(
                self.light,
                *self.described,
                preference,
                ALGORITHMS,
                found.ctypes.data,
                count.ctypes.data,
            )
        except cublasLt.cuBLASLtError as error:
            if error.status != NOT_SUPPORTED:
                raise
        finally:
            cublasLt.matmul_preference_destroy(preference)
        return [
            found["algo"][i : i + 1].copy() for i in range(int(count[0])) if found["state"][i] == 0
        ]

    def _initial(self, id: int) -> Any:
        algorithm = np.zeros(1, cublasLt.matmul_algo_dtype)
        cublasLt.matmul_algo_init(self.light, *self.types, id, algorithm.ctypes.data)
        return algorithm

    def made(self, values: Mapping[str, int]) -> Any:
        """Return the algorithm with these parameters; None if cuBLASLt does not run it on the
        problem (cublasLtMatmulAlgoCheck), or only in a larger workspace.
        """
        checked = np.zeros(1, cublasLt.matmul_heuristic_result_dtype)
        try:
            algorithm = self._initial(values["ID"])
            for name, attribute in PARAMETERS.items():
                # what an algorithm does not have perhaps cannot be set, not even to its default
                if name != "ID" and values[name] != self._value(algorithm, attribute):
                    value = np.array([values[name]], _dtype(attribute))
                    cublasLt.matmul_algo_config_set_attribute(
                        algorithm.ctypes.data, int(attribute), value.ctypes.data, value.nbytes
                    )
            cublasLt.matmul_algo_check(
                self.light, *self.described, algorithm.ctypes.data, checked.ctypes.data
            )
        except cublasLt.cuBLASLtError:
            return None
        return algorithm if checked["workspace_size"][0] <= self.workspace[1] else None

    def parameters(self, algorithm: Any) -> Algorithm:
        """Return the parameters of an algorithm."""
        return tuple((name, self._value(algorithm, each)) for name, each in PARAMETERS.items())

    def _value(self, algorithm: Any, attribute: Any) -> int:
        """Return a parameter of an algorithm; 0 if it does not have that."""
        with suppress(cublasLt.cuBLASLtError):
            read = cublasLt.matmul_algo_config_get_attribute
            return _read(read, algorithm, attribute, np.zeros(1, _dtype(attribute)))[0]
        return 0

    def spaces(self) -> Spaces:
        """Return what each algorithm may change (cublasLtMatmulAlgoGetIds and its capabilities).

        Those that need a better alignment than all rows have are left out: they might read beyond a
        row.
        """
        spaces = {}
        for id in cublasLt.matmul_algo_get_ids(self.light, *self.types, MOST_IDS):
            with suppress(cublasLt.cuBLASLtError):  # one that this device does not have
                can = partial(_capability, self._initial(id))
                if max(can(f"MIN_ALIGNMENT_{matrix}_BYTES")[0] for matrix in "ABCD") > self.rows:
                    continue
                one = {
                    "TILE": can("TILE_IDS"),
                    "STAGES": can("STAGES_IDS"),
                    "SWIZZLE": range(can("CTA_SWIZZLING_SUPPORT")[0] + 1),
                    "CUSTOM": range(can("CUSTOM_OPTION_MAX")[0] + 1),
                    "CLUSTER": map(int, cublasLt.ClusterShape),
                }
                schemes = [bit for bit in SCHEMES if can("REDUCTION_SCHEME_MASK")[0] & bit]
                parts = SPLITS if can("SPLITK_SUPPORT")[0] else ()
                spaces[id] = [
                    *({name: value} for name, values in one.items() for value in values),
                    {"SPLITK": 1, "REDUCTION": 0},
                    *({"SPLITK": n, "REDUCTION": bit} for n in parts for bit in schemes),
                ]
        return spaces

    def proposals(self) -> list[Algorithm]:
        """Return what the heuristic offers, then what it offers of each algorithm by its `ID`."""
        offered = self.offered()
        for id in cublasLt.matmul_algo_get_ids(self.light, *self.types, MOST_IDS):
            with suppress(cublasLt.cuBLASLtError):
                offered += self.offered(id)
        return [self.parameters(algorithm) for algorithm in offered]

    def search(self) -> Algorithm | None:
        """Return the fastest algorithm that a search finds; None for none."""
        ready: dict[Algorithm, Call | None] = {}

        def us(values: Algorithm) -> float | None:
            if values not in ready:
                ready[values] = self._ready(self.made(dict(values)))
            if (call := ready[values]) is None:
                return None
            times: list[float] = self.device.time_calls([call])
            if times[0] < SHORT_US:
                times += self.device.time_calls([call] * 3)
            return min(times)

        return fastest(self.proposals(), self.spaces(), us, Random(0))

    def _ready(self, algorithm: Any) -> Call | None:
        """Return a call of an algorithm whose code is loaded; None if cuBLASLt refuses it."""
        if algorithm is None:
            return None
        call = self.bind(algorithm, *self.device.spare())
        try:
            call()
        except cublasLt.cuBLASLtError:
            return None
        self.device.stream.synchronize()
        return call

    def bind(self, algorithm: Any, a: int, b: int, c: int, *scales: int) -> Call:
        """Return a call of an algorithm on operands at these addresses."""
        how, of_b, of_a, of_c, _ = self.described

        def call() -> None:
            self._set_scales(how, "POINTER", scales)
            cublasLt.matmul(
                self.light,
                how,
                self.alpha.ctypes.data,
                b,
                of_b,
                a,
                of_a,
                self.beta.ctypes.data,
                c,
                of_c,
                c,
                of_c,
                algorithm.ctypes.data,
                *self.workspace,
                self.device.stream.handle,
            )

        return call


def _dtype(attribute: Any) -> Any:
    return cublasLt.get_matmul_algo_config_attribute_dtype(int(attribute))


def _capability(algorithm: Any, name: str) -> list[int]:
    """Return what an algorithm can have: one number, or several."""
    attribute, written = cublasLt.MatmulAlgoCapAttribute[name], np.zeros(1, np.uint64)
    read = cublasLt.matmul_algo_cap_get_attribute
    dtype = np.dtype(cublasLt.get_matmul_algo_cap_attribute_dtype(int(attribute)))
    # asked for no bytes, it says how many there are
    read(algorithm.ctypes.data, int(attribute), 0, 0, written.ctypes.data)
    return _read(read, algorithm, attribute, np.zeros(int(written[0]) // dtype.itemsize, dtype))


def _read(read: Any, algorithm: Any, attribute: Any, values: Any) -> list[int]:
    """Fill an array with an algorithm's attribute; return its numbers."""
    written = np.zeros(1, np.uint64)
    if len(values):
        at = algorithm.ctypes.data, int(attribute)
        read(*at, values.ctypes.data, values.nbytes, written.ctypes.data)
    return [int(value) for value in values]
