"""Rung 21 in NumPy, operation by operation: what `kernels/include/split_float.cuh` and the kernel
compute, as tensor cores are assumed to.

Exact but for what overflows on the way, so that bounds can be held against it, and inputs searched
that break them, without a GPU.
`docs/float32-from-tensor-cores.md` has the proof that the names of the parts are from.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
U = 2.0**-24
"""The unit roundoff of float32."""
CHUNK = 64
"""Of K, which rung 21 multiplies by tensor cores, or not, at a time."""
LOST, DROPPED, BIAS, CUT = 24, 4, 2, 43
"""The parts of the bound, in units of u * sum of |a|*|b|; the page has their proofs."""

GROUP, STRIP, STEP = 8, 32, 16
"""Rows or columns that share a record; columns that may share a scale; products of one
instruction.
"""
FEW, FLAT, LARGE, MEDIUM, SMALL, TINY, NEAR = 33, 128, 512.0, 8.0, 0.125, 2.0**-14, 0.125
GAIN = 1 + 2.0**-23
KEPT_BITS = 25
"""Of an addend, below the power of two of an instruction's largest one: measured, not specified."""


def bound(k: int) -> float:
    """The a-priori bound of an element's error, in units of u times that element of |A| |B|."""
    return LOST + DROPPED + BIAS + CUT + 4 * -(-k // CHUNK)


def fields(x: Floats) -> npt.NDArray[np.int64]:
    """The exponent fields of floats."""
    return (np.abs(x).view(np.uint32) >> 23).astype(np.int64)


@dataclass(frozen=True)
class Half:
    """One side of a chunk: vectors (rows of A, or columns of B) x 64, scaled and split, with the
    record of every eight of them.
    """

    high: Array
    low: Array
    scale: Array
    """What undoes the scaling, a vector."""
    lows: npt.NDArray[np.bool_]
    """Whether a vector has low halves."""
    fit: npt.NDArray[np.int64]
    """Of every group: large, medium, surely kept, finite."""
    span: npt.NDArray[np.int64]
    """Present / 2, least exponent field, 255 less the greatest, near."""
    easy: npt.NDArray[np.bool_]


def split(x: Floats, beyond: int, chunks: int, strips: bool, filling: int) -> Half:
    """Split `x`, vectors x 64, the last `filling` of which only fill up a tile; `beyond` elements
    of each lie past the end of K.

    With `strips`, which is how B is split, 32 neighbours that are alike share a scale.
    """
    own = np.abs(x).max(axis=1)
    own[np.isnan(x).any(axis=1)] = np.nan
    by = own.copy()
    for at in range(0, len(x) if strips else 0, STRIP):
        part, of_all = fields(own[at : at + STRIP]), own[at : at + STRIP].max()
        if (
            np.isfinite(of_all)
            and ((own[at : at + STRIP] == 0) | (part + 6 >= fields(of_all[None])[0])).all()
        ):
            by[at : at + STRIP] = of_all
    up = np.ldexp(1.0, np.where(by == 0, 0, np.clip(141 - fields(by), -113, 126)))
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = x * up[:, None]
        high = scaled.astype(np.float16).astype(np.float64)
        low = (scaled - high).astype(np.float16).astype(np.float64)
        near = (NEAR * up * own).astype(np.float16).astype(np.float64)
        size = np.abs(high)
        counts = [(size >= limit).sum(axis=1) for limit in (LARGE, MEDIUM)]
        lost = ((size < SMALL) & (x != 0) & ((size < TINY) | (high != scaled))).sum(axis=1)
        nears = (size >= near[:, None]).sum(axis=1)
    field, zero = fields((1 / up).astype(np.float32)), own == 0
    fit = np.stack([counts[0] + beyond, counts[1] + beyond, CHUNK - lost, np.isfinite(own)], axis=1)
    fit[zero] = [64, 64, 64, 1]
    span = np.stack([np.full(len(x), 255), field, 255 - field, nears], axis=1)
    span[zero] = 255
    present = np.where(
        zero, np.where(np.arange(len(x)) >= len(x) - filling, CHUNK, 0), counts[1] + beyond
    )
    fit, span = (part.reshape(-1, GROUP, 4).min(axis=1) for part in (fit, span))
    some = ~zero.reshape(-1, GROUP).all(axis=1)
    span[some, 0] = np.minimum(present.reshape(-1, GROUP).sum(axis=1) // 2, 255)[some]
    easy = (
        (fit[:, 3] == 1)
        & (fit[:, 2] == CHUNK)
        & (span[:, 0] ** 2 * min(chunks, 4096) >= FEW * 1024)
        & (span[:, 1] >= 80)
    )
    easy &= (span[:, 2] >= 95) & (span[:, 3] ** 2 >= FLAT)
    return Half(high, low, 1 / up, ((low != 0) | np.signbit(low)).any(axis=1), fit, span, easy)


@dataclass(frozen=True)
class Verdict:
    """What is done with a chunk of a tile."""

    tensor: bool
    steep: bool = False


def judge(a: Half, b: Half, k: int) -> Verdict:
    """The kernel's decision."""
    if a.easy.all() and b.easy.all():
        return Verdict(True)
    (large_a, medium_a, kept_a, finite_a), (large_b, medium_b, kept_b, finite_b) = (
        a.fit.min(axis=0),
        b.fit.min(axis=0),
    )
    span_a, span_b = a.span.min(axis=0), b.span.min(axis=0)
    lost, products = 2 * CHUNK - kept_a - kept_b, span_a[0] * span_b[0]
    proved = (
        lost == 0
        or lost <= 256 * (large_a + large_b - CHUNK)
        or lost <= 4 * (max(large_a + medium_b, medium_a + large_b) - CHUNK)
        or 16 * lost <= medium_a + medium_b - CHUNK
    )
    tensor = (
        finite_a * finite_b == 1
        and products * min(-(-k // CHUNK), 4096) >= FEW * 1024
        and span_a[1] + span_b[1] >= 254 - 149
        and 510 - span_a[2] - span_b[2] <= 254 + 98 - int(k).bit_length()
        and proved
    )
    return Verdict(bool(tensor), bool(span_a[3] * span_b[3] < FLAT))


def truncated(x: Array, to: Array) -> Array:
    """x cut off towards zero at a multiple of `to`, a power of two."""
    return np.asarray(np.trunc(x / to) * to)


def exponents(x: Array) -> npt.NDArray[np.int64]:
    """Powers of two of FP16 numbers by their fields: a denormal counts as 2^-14. Zeros have
    none.
    """
    return np.where(x == 0, -1000, np.maximum(np.frexp(x)[1] - 1, -14)).astype(np.int64)


def instruction(total: Array, a: Array, b: Array) -> Array:
    """total + a b for 16 of K, as the tensor cores are assumed to: each addend cut off below the
    largest one, then the sum to 24 bits.
    """
    products = a[:, None, :] * b[None, :, :]
    power = exponents(a)[:, None, :] + exponents(b)[None, :, :]
    power = np.maximum(
        np.where(products == 0, -2000, power).max(axis=2),
        np.where(total == 0, -2000, np.frexp(total)[1] - 1),
    )
    unit = np.ldexp(1.0, np.maximum(power, -900) - KEPT_BITS)
    result = truncated(products, unit[:, :, None]).sum(axis=2) + truncated(total, unit)
    return truncated(result, np.ldexp(1.0, np.frexp(result)[1] - 24))


def on_tensor_cores(a: Half, b: Half, parts: slice) -> Array:
    """The scaled sum over some of the chunk's four sixteens: first the small products, then the
    large ones.
    """
    total = np.zeros((len(a.high), len(b.high)))
    sixteens = [slice(at, at + STEP) for at in range(0, CHUNK, STEP)][parts]
    for at in sixteens:
        total = instruction(total, a.low[:, at], b.high[:, at])
        total = instruction(total, a.high[:, at], b.low[:, at])
    for at in sixteens:
        total = instruction(total, a.high[:, at], b.high[:, at])
    return total


def rounded(x: Array) -> Array:
    """To the nearest float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(np.float32).astype(np.float64)


def in_float32(a: Array, b: Array) -> Array:
    """A chunk's sum by multiply-adds, one after another: the longest way that a configuration
    goes.
    """
    total = np.zeros((len(a), len(b)))
    with np.errstate(invalid="ignore"):
        for k in range(CHUNK):
            total = rounded(total + a[:, k, None] * b[None, :, k])
    return total


def chunks(a: Floats, b: Floats) -> list[tuple[Floats, Floats, Half, Half]]:
    """The chunks of a tile of all rows of A (M x K) and columns of B (K x N), the last ones first:
    floats, and halves, of both.
    """
    (m, k), n = a.shape, b.shape[1]
    count = -(-k // CHUNK)
    padded_a = np.zeros((-(-m // GROUP) * GROUP, count * CHUNK), np.float32)
    padded_b = np.zeros((-(-n // STRIP) * STRIP, count * CHUNK), np.float32)
    padded_a[:m, :k], padded_b[:n, :k] = a, b.T
    pieces = []
    for at in reversed(range(count)):
        x, y = (padded[:, at * CHUNK : (at + 1) * CHUNK] for padded in (padded_a, padded_b))
        beyond = max(0, (at + 1) * CHUNK - k)
        pieces.append(
            (x, y, split(x, beyond, count, False, len(x) - m), split(y, 0, count, True, len(y) - n))
        )
    return pieces


def multiply(a: Floats, b: Floats, long: bool = True) -> Floats:
    """A B of one tile, alpha = 1, beta = 0. Without `long`, what it would be if sums of 4 or 16
    chunks were not added up first.
    """
    (m, k), n = a.shape, b.shape[1]
    parts = chunks(a, b)
    total = np.zeros((len(parts[0][0]), len(parts[0][1])))
    whole = np.zeros_like(total)
    often = 3 if len(parts) < 64 else 15
    for at, (x, y, half_a, half_b) in enumerate(parts):
        verdict = judge(half_a, half_b, k)
        scale = half_a.scale[:, None] * half_b.scale[None, :]
        if not verdict.tensor:
            with np.errstate(invalid="ignore"):
                total = rounded(total + in_float32(x.astype(np.float64), y.astype(np.float64)))
        elif verdict.steep:
            for quarter in range(4):
                total = rounded(
                    total + on_tensor_cores(half_a, half_b, slice(quarter, quarter + 1)) * scale
                )
        else:
            gain = np.where(half_a.lows[:, None] & half_b.lows[None, :], GAIN, 1.0)
            total = rounded(total + on_tensor_cores(half_a, half_b, slice(None)) * (scale * gain))
        if long and (len(parts) - 1 - at) & often == 0:
            whole, total = rounded(whole + total), np.zeros_like(total)
    with np.errstate(over="ignore", invalid="ignore"):
        return (whole + total)[:m, :n].astype(np.float32)


def off(a: Floats, b: Floats, c: Floats) -> float:
    """The largest error of an element, in units of u times that element of |A| |B|; of C = A B, all
    finite.
    """
    x, y = a.astype(np.float64), b.astype(np.float64)
    size = np.abs(x) @ np.abs(y)
    # denormal results are rounded to multiples of that
    wrong = np.maximum(np.abs(c - x @ y) - a.shape[1] * 2.0**-149, 0)
    return float(np.max(np.divide(wrong, size, out=np.zeros_like(size), where=size > 0)) / U)
