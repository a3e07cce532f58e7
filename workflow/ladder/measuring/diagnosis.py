"""The diagnosis of an incorrect result: its first incorrect element, and the common mistakes that give exactly these numbers."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.devices.operands import CANARY, exact_mask, reference, scalars, values
from ladder.model.problem import Problem

ROWS = 2**28
"""Products that are summed at a time. Of a large problem only the rows up to the first incorrect one are computed."""
TILES = (128, 64, 32, 16, 8, 4, 2)
POISON = np.full(2, CANARY, np.uint32).tobytes()
"""The bytes of an element of any size that nobody has written."""
NOT_READ = "write `beta == 0 ? 0 : beta * C[...]`, because C may hold NaN then"
UNTOUCHED = f"nothing is written there, or C is read although beta is 0: {NOT_READ}"
COMPUTED = f"it is computed as not a number, or C is read although beta is 0: {NOT_READ}"
"""For a NaN with other bits: a GPU turns every NaN that it reads into the same one."""
Flat = NDArray[Any]


@dataclass(frozen=True)
class Diagnosis:
    """The first incorrect element, C[row][column], its value and the expected one, and how many of the elements looked at are incorrect."""

    row: int
    column: int
    got: float
    wanted: float
    wrong: int
    elements: int
    guesses: list[str]
    """Mistakes that give such a result."""


def _matrix(flat: Flat, rows: int, cols: int, ld: int) -> NDArray[np.float64]:
    """Return the matrix that begins at the first element. Beyond the last element are zeros."""
    needed = (rows - 1) * ld + cols
    padded = flat[:needed] if len(flat) >= needed else np.concatenate([flat, np.zeros(needed - len(flat), flat.dtype)])
    return values(np.lib.stride_tricks.as_strided(padded, (rows, cols), (ld * flat.itemsize, flat.itemsize)))


def _reference(problem: Problem, a: Flat, b: Flat, old: Flat, rows: slice, **other: Any) -> tuple[Flat, Flat]:
    """Return `alpha*A*B + beta*C` and `|alpha| |A| |B| + |beta| |C|` of some rows in float64; `other` has the values that a mistake uses."""
    alpha, beta = (float(value) for value in scalars(problem))
    alpha, beta, depth = other.get("alpha", alpha), other.get("beta", beta), other.get("k", problem.k)
    left = _matrix(a, problem.m, problem.k, other.get("lda", problem.lda))[rows, :depth]
    right = _matrix(b, problem.k, problem.n, other.get("ldb", problem.ldb))[:depth]
    return reference(alpha, beta, left, right, _matrix(old, problem.m, problem.n, other.get("ldc", problem.ldc))[rows])


def diagnose(problem: Problem, a: Flat, b: Flat, old: Flat, result: Flat, again: Flat, bound: float) -> Diagnosis | None:
    """Compare the `result` of a launch with float64 and with `again`, that of a second launch. Return None if no element is incorrect.

    All arrays are flat, from the first element of the matrix on; `old` is C before the launch. An element is incorrect if it is off by more
    than `bound` times |alpha| |A| |B| + |beta| |C|, or, if it must be exact, if it is off at all.
    """
    step = max(1, ROWS // (problem.n * problem.k))
    got = _matrix(result, problem.m, problem.n, problem.ldc)

    def differ(mine: Flat, wanted: Flat, scale: Flat) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            close = np.abs(mine - wanted) <= np.where(exact_mask(problem)[rows], 0, bound * scale)
        off: NDArray[np.bool_] = ~(close | (mine == wanted) | (np.isnan(mine) & np.isnan(wanted)))
        return off

    for start in range(0, problem.m, step):
        rows = slice(start, min(start + step, problem.m))
        wanted, scale = _reference(problem, a, b, old, rows)
        wrong = differ(got[rows], wanted, scale)
        if wrong.any():
            break
    else:
        return None
    row, column = (int(index) for index in np.argwhere(wrong)[0])

    def same(**other: Any) -> bool:
        """Return whether a mistake gives this result."""
        taken = _matrix(result, problem.m, problem.n, other.get("ldc", problem.ldc))[rows]
        return not differ(taken, *_reference(problem, a, b, old, rows, **other)).any()

    block, place = got[rows], (start + row) * problem.ldc + column
    if not np.array_equal(result.view(np.uint8), again.view(np.uint8)):
        guesses = ["a race, or memory that nobody set: two launches differ"]
    else:
        guesses = [words for words, other in _mistakes(problem) if same(**other)]
        # a wrong stride reads the NaN between rows: it explains the same result, but not on problems that have nothing there
        if problem.beta == 0 and np.isnan(block[row, column]) and (np.isnan(block).all() or not guesses):
            guesses.insert(0, UNTOUCHED if result[place : place + 1].tobytes() in POISON else COMPUTED)
    guesses = guesses or list(filter(None, [_edge(problem, rows, wrong)]))
    return Diagnosis(
        start + row, column, float(block[row, column]), float(wanted[row, column]), int(wrong.sum()), wrong.size, guesses
    )


def _mistakes(problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield common mistakes in words, and as arguments of `_reference`."""
    if problem.alpha != 1:
        yield "alpha is left out", {"alpha": 1.0}
    if problem.beta != 0:
        yield "beta is left out: the old C is not added", {"beta": 0.0}
        yield "beta is left out: the old C is added as it is", {"beta": 1.0}
        yield "alpha and beta are exchanged", {"alpha": problem.beta, "beta": problem.alpha}
    strides = {"lda": problem.lda, "ldb": problem.ldb, "ldc": problem.ldc, "K": problem.k, "N": problem.n}
    for name in ("lda", "ldb", "ldc"):
        for other, value in strides.items():
            if value != strides[name]:
                yield f"leading dimension: {other} is used instead of {name}", {name: value}
    if any(problem.paddings):
        yield (
            "leading dimensions are left out: rows of A are lda apart, those of B ldb, those of C ldc",
            {"lda": problem.k, "ldb": problem.n, "ldc": problem.n},
        )
    for left in dict.fromkeys(problem.k % tile for tile in TILES):
        if 0 < left <= problem.k:
            yield f"the last {left} of K are left out", {"k": problem.k - left}


def _edge(problem: Problem, looked_at: slice, wrong: NDArray[np.bool_]) -> str:
    """Return in words whether only the last rows or columns are incorrect; "" if not."""
    places = np.argwhere(wrong)
    row, column = places[:, 0] + looked_at.start, places[:, 1]
    rows, columns = problem.m - int(row.min()), problem.n - int(column.min())
    if rows <= problem.m // 2 and rows < TILES[0]:  # the rest that a tile leaves over is smaller than the tile
        return f"an edge: only the last {rows} rows are wrong"
    if columns <= problem.n // 2 and columns < TILES[0]:
        return f"an edge: only the last {columns} columns are wrong"
    for tile in reversed(TILES):
        edge = (row >= problem.m - problem.m % tile) | (column >= problem.n - problem.n % tile)
        if edge.all() and problem.m >= tile and problem.n >= tile:
            return f"an edge: only what tiles of {tile} leave over is wrong"
    return ""


def dividing(wrong: Sequence[Problem], right: Sequence[Problem]) -> str:
    """Return the `needs` that all correct problems meet and no incorrect one does: sizes that are multiples of a tile; "" for none.

    If several fit, it is the strictest: of two sizes that never occur apart, the kernel may need either.
    """
    for names, tile in itertools.product(("MNK", "MN", "MK", "NK", "M", "N", "K"), TILES):

        def divides(problem: Problem, names: str = names, tile: int = tile) -> bool:
            return not any(getattr(problem, name.lower()) % tile for name in names)

        if right and all(map(divides, right)) and not any(map(divides, wrong)):
            return f"needs: [{', '.join(f'{name} % {tile} == 0' for name in names)}]"
    return ""
