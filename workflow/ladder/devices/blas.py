"""NumPy's BLAS, called as BLAS so that alpha, beta and leading dimensions mean the same.
threadpoolctl fixes its threads.
"""

import ctypes
import re
from functools import lru_cache, partial
from typing import Any

from ladder.core.types import ELEMENT_TYPES
from ladder.devices.base import Call, Launch, Refused
from ladder.devices.cpu import Cpu, controller, use_threads
from ladder.devices.detect import CPUINFO

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112
"""The values of CblasRowMajor, CblasNoTrans and CblasTrans in CBLAS."""
WITH_AVX2 = ("haswell", "zen", "skylakex", "cooperlake", "sapphirerapids")
"""OpenBLAS's x86 kernels that use AVX2 (its TargetList.txt)."""
_SYMBOLS = ("scipy_cblas_{0}gemm64_", "scipy_cblas_{0}gemm", "cblas_{0}gemm64_", "cblas_{0}gemm")


@lru_cache
def _gemm(letter: str) -> tuple[Any, Any]:
    """Return cblas_?gemm of the BLAS that NumPy loaded, and the ctypes integer that it takes."""
    for library in controller().info():
        loaded = ctypes.CDLL(library["filepath"])
        for symbol in _SYMBOLS:
            gemm = getattr(loaded, symbol.format(letter), None)
            if gemm:
                gemm.restype = None
                return gemm, ctypes.c_int64 if "64_" in symbol else ctypes.c_int
    raise Refused("not_supported", "NumPy's BLAS exports no cblas_gemm")


def version() -> str:
    """Return name and version of the BLAS, and the processor that its kernels are for: `openblas
    0.3.30 (SkylakeX)`.

    OpenBLAS takes the kernels of an old processor if it does not know this one. If these leave AVX2
    unused, the text says so.
    """
    has_avx2 = re.search(r"^flags\s*:.* avx2\b", CPUINFO.read_text(), re.MULTILINE)
    words = []
    for library in controller().info():
        kernels = library.get("architecture", "unknown")
        slow = (
            has_avx2 and library["internal_api"] == "openblas" and kernels.lower() not in WITH_AVX2
        )
        words.append(
            f"{library['internal_api']} {library['version']} "
            f"({kernels}{', which leave AVX2 unused' if slow else ''})"
        )
    return ", ".join(words)


def launch(device: Cpu, name: str) -> Launch:
    """Return the launch of `blas_1` or `blas_all` on the device's operands, with one thread or one
    per core. CBLAS has no batches: it is a call for each matrix.
    """
    gemm, integer = _gemm("s" if device.given.element_type == "float32" else "d")
    threads = 1 if name == "blas_1" else device.threads
    p = device.given
    turned = [TRANS if each else NO_TRANS for each in p.transposed[:2]]
    strides = [stride * ELEMENT_TYPES[p.element_type].size for stride in p.strides]

    def one(*addresses: int) -> Call:
        m, n, k, alpha, a, lda, b, ldb, beta, c, ldc = device.arguments(*addresses)
        m, n, k, lda, ldb, ldc = (integer(each.value) for each in (m, n, k, lda, ldb, ldc))
        return partial(gemm, ROW_MAJOR, *turned, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)

    def bind(*addresses: int) -> Call:
        calls = [
            one(*(first + number * by for first, by in zip(addresses, strides, strict=True)))
            for number in range(p.batch)
        ]

        def every() -> None:
            for call in calls:
                call()

        return every if p.batched else calls[0]

    return Launch(bind, partial(use_threads, threads))
