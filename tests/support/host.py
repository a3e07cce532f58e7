"""Kernels of NumPy's on the host CPU's device: what the tests of draws, verdicts and audits
launch.
"""

import ctypes
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from ladder.compiling.compile import compile_support
from ladder.core.types import ELEMENT_TYPES
from ladder.devices import blas
from ladder.devices.base import Errors, Launch
from ladder.devices.cpu import C_TYPES, CDraw, CPlace, Cpu
from ladder.devices.operands import (
    CANARY,
    E4M3,
    draws,
    exact_mask,
    inside,
    places,
    reference,
    scalars,
    scale_draws,
    scale_places,
    spread,
    stored_type,
    values,
)
from ladder.model.problem import Problem
from simulated import matrix
from threadpoolctl import threadpool_limits

Compute = Callable[[Problem, Any, Any, Any], None]
"""What a launch does, given the problem and the matrices A, B and C as they lie in memory."""


@lru_cache
def host() -> Cpu:
    """The host CPU; what the pipeline runs there itself is compiled once a process."""
    with tempfile.TemporaryDirectory() as folder:
        support = Path(folder) / "support.so"
        support.write_bytes(compile_support("cpu", ""))
        # several threads for small matrices wait for each other where other tests run beside them
        threadpool_limits(1)
        return Cpu(support, blas)


def launch(device: Cpu, compute: Compute) -> Launch:
    """A launch on the device's present problem, one product after the other."""
    p = device.given
    size, leading = ELEMENT_TYPES[p.element_type].size, (p.lda, p.ldb, p.ldc)

    def bind(*addresses: int) -> Callable[[], None]:
        places = zip(addresses, p.shapes, leading, p.strides, strict=True)
        every = [
            [
                matrix(address + number * stride * size, *shape, ld, p.element_type)
                for number in range(p.batch)
            ]
            for address, shape, ld, stride in places
        ]
        products = [as_multiplied(p, lying) for lying in zip(*every, strict=True)]

        def call() -> None:
            for matrices in products:
                compute(p, *matrices)

        return call

    return Launch(bind)


def as_multiplied(problem: Problem, lying: Iterable[Any]) -> list[Any]:
    """op(A), op(B) and C, from the matrices as they lie in memory."""
    return [
        each.swapaxes(-1, -2) if turned else each
        for each, turned in zip(lying, problem.transposed, strict=True)
    ]


def right(p: Problem, a: Any, b: Any, c: Any) -> None:
    """`C <- alpha*A*B + beta*C`, summed in float64."""
    with np.errstate(all="ignore"):
        c[:] = reference(*(float(factor) for factor in scalars(p)), a, b, c)[0]


def summed(p: Problem, a: Any, b: Any, order: Iterable[int]) -> Any:
    """The product in the element type, summed along K in an order."""
    total = np.zeros((p.m, p.n), a.dtype)
    for k in order:
        total += a[:, k : k + 1] * b[k : k + 1]
    return total


def doing(code: str) -> Compute:
    """What a launch does that computes `right`, and then what Python says of `p`, `a`, `b`, `c` and
    `old`, C as it was before.
    """
    compiled = compile(code, code, "exec")

    def compute(p: Problem, a: Any, b: Any, c: Any) -> None:
        names = {"p": p, "a": a, "b": b, "c": c, "old": c.copy(), "np": np, "poke": poke}
        right(p, a, b, c)
        exec(compiled, names)

    return compute


@contextmanager
def held(problem: Problem) -> Iterator[Any]:
    """The operands of a problem, which the host has meanwhile."""
    operands = host().operands(problem)
    try:
        yield operands
    finally:
        host().free(operands)


def checked(problem: Problem, compute: Compute) -> Any:
    """The `Errors` of one launch on a problem."""
    with held(problem):
        return host().check(launch(host(), compute))


@lru_cache(maxsize=1)  # the reference is computed right after a launch
def buffers(problem: Problem) -> list[Any]:
    """The buffers of A, B and C of a problem of any element type, drawn on the host, canaries round
    them; C as it is before a launch.
    """
    arrays = []
    for index, (place, draw) in enumerate(zip(places(problem), draws(problem), strict=True)):
        wide = np.empty(place.total)  # in double, from which a device rounds too
        host().support.fill(ctypes.c_void_p(wide.ctypes.data), 8, CPlace(*place), CDraw(*draw))
        kind = problem.element_type
        if index == 2:
            kind = ELEMENT_TYPES[kind].of_c.name
        words = place.total * problem.sizes[index] // 4
        array = np.full(words, CANARY, np.uint32).view(stored_type(kind))
        if index < 2 or problem.beta:
            with np.errstate(over="ignore"):
                inside(array, place)[:] = rounded(inside(wide, place), kind)
        arrays.append(array)
    return arrays


def scales_of(problem: Problem) -> list[Any]:
    """The scales of A and of B as they lie in memory, if the element type has any."""
    arrays = []
    for place, draw in zip(scale_places(problem), scale_draws(draws(problem)), strict=False):
        buffer = np.empty(place.total, np.float32)
        host().support.fill(ctypes.c_void_p(buffer.ctypes.data), 4, CPlace(*place), CDraw(*draw))
        arrays.append(inside(buffer, place).copy())
    return arrays


def rounded(wide: Any, element_type: str) -> Any:
    """Numbers in float64 as elements in memory, rounded to nearest, ties to even."""
    element = ELEMENT_TYPES[element_type]
    if element_type != "bfloat16" and not element.result:
        return wide.astype(element_type)
    exponent = np.maximum(np.frexp(wide)[1], element.exponents[0] + 1)
    fewer = np.ldexp(np.rint(np.ldexp(wide, element.digits - exponent)), exponent - element.digits)
    if element.result:  # saturated, as CUDA converts
        fewer = np.where(np.isnan(wide), 512, np.minimum(np.abs(fewer), 448))
        byte = np.searchsorted(E4M3[:127], fewer)
        return (byte | np.where(np.signbit(wide) & ~np.isnan(wide), 128, 0)).astype(np.uint8)
    return (fewer.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@lru_cache(maxsize=512)
def _reference(problem: Problem) -> tuple[Any, Any]:
    """C in float64, and what its error bound is relative to."""
    lying = (
        inside(buffer, where)
        for buffer, where in zip(buffers(problem), places(problem), strict=True)
    )
    a, b, c = as_multiplied(problem, lying)
    by_row, by_column = spread(problem, scales_of(problem))
    factors = (float(factor) for factor in scalars(problem))
    return reference(*factors, values(a) * by_row, values(b) * by_column, c)


def compared(problem: Problem, result: Any, before: Sequence[Any]) -> Errors:
    """The `Errors` of the buffer of C after a launch, as a device finds them, of any element type.
    `before` are the buffers of A, B and C before it.
    """
    place, element = places(problem)[2], ELEMENT_TYPES[problem.element_type].of_c
    sums, scale = _reference(problem)
    with np.errstate(all="ignore"):
        once = values(rounded(sums, element.name))
        actual = values(inside(result, place))
        finite = np.isfinite(actual) & np.isfinite(once)
        wild = ~finite & ~((actual == once) | (np.isnan(actual) & np.isnan(once)))
        exact = exact_mask(problem)
        expected = np.where(exact, once, sums)
        off = np.where(finite, np.abs(actual - expected), 0.0)
        # the least positive number
        least = 2.0 ** (element.exponents[0] + 1) * element.output_roundoff
        share = np.where(off > least, off / scale, 0.0)
        share[wild | (exact & (off > 0))] = np.inf
    outside = [buffer.copy() for buffer in (result, before[2])]
    for buffer in outside:
        inside(buffer, place)[:] = 0
    written, untouched = (buffer.view(f"u{buffer.itemsize}") for buffer in outside)
    stray = np.count_nonzero(written != untouched)
    diff2, ref2, scale2, rounded2 = (
        float(np.sum(np.square(part[finite]))) for part in (off, expected, scale, expected - once)
    )
    where = int(share.argmax())
    wilds = int(np.count_nonzero(wild))
    return Errors(diff2, ref2, scale2, float(share.max()), where, wilds, int(stray), rounded2)


def drawn(problem: Problem) -> tuple[Any, Any, Any]:
    """A, B and C of a problem as a launch finds them."""
    copies: list[Any] = []
    checked(problem, lambda p, *matrices: copies.extend(matrix.copy() for matrix in matrices))
    a, b, c = copies
    return a, b, c


def poke(matrix: Any, place: int, value: float) -> None:
    """Write to an element's place after (or before) that where a matrix begins, whether it is in
    the matrix or not.
    """
    kind = C_TYPES[str(matrix.dtype)]
    kind.from_address(matrix.ctypes.data + place * matrix.itemsize).value = value
