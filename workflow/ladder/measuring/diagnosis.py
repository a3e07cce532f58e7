"""The diagnosis of an incorrect result: its first incorrect element, and the common mistakes that
give exactly these numbers.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ladder.devices.operands import CANARY, exact_mask, place_in_c, reference, scalars, values
from ladder.measuring.verify import is_open
from ladder.model.problem import Problem

ROWS = 2**28
"""Products that are summed at a time. Of a large problem only the rows up to the first incorrect
one are computed.
"""
TILES = (128, 64, 32, 16, 8, 4, 2)
POISON = np.full(2, CANARY, np.uint32).tobytes()
"""The bytes of an element of any size that nobody has written."""
NOT_READ = "write `beta == 0 ? 0 : beta * C[...]`, because C may hold NaN then"
UNTOUCHED = f"nothing is written there, or C is read although beta is 0: {NOT_READ}"
COMPUTED = f"it is computed as not a number, or C is read although beta is 0: {NOT_READ}"
"""For a NaN with other bits: a GPU turns every NaN that it reads into the same one."""
COLUMN_MAJOR = "the matrices are taken for column-major: exchange A and B, M and N, lda and ldb"
ONLY_FIRST = "only the first matrix of the batch is written: see that C moves by its stride"
LAYOUT = ("lda", "ldb", "ldc", "columns", "turn_a", "turn_b", "stride_a", "stride_b", "stride_c")
"""Arguments of `_computed` with which other elements are multiplied than those whose sums are
exact.
"""
PAIRS_FLOPS = 10**8
"""The most operations of a problem on which pairs of mistakes are tried."""
Flat = NDArray[Any]


@dataclass(frozen=True)
class Diagnosis:
    """The first incorrect element, C[row][column], its value and the expected one, and how many of
    the elements looked at are incorrect.
    """

    row: int
    column: int
    got: float
    wanted: float
    wrong: int
    elements: int
    guesses: list[list[str]]
    """Mistakes, or pairs of them, that give such a result."""
    idle: list[str]
    """Mistakes that change nothing on this problem, or that do not show in this result."""
    matrix: int = 0
    """The number of C in a batch."""
    name: str = ""
    """The element: `C[3][4]`, or of a batch `C[2][3][4]`."""

    def __str__(self) -> str:
        return (
            f"{self.name} is {self.got:.9g}; expected {self.wanted:.9g} "
            f"({self.wrong} of {self.elements} elements are wrong)"
        )


def _matrix(flat: Flat, rows: int, cols: int, ld: int) -> NDArray[np.float64]:
    """Return the matrix that begins at the first element. Beyond the last element are zeros."""
    whole = min(rows, max(0, len(flat) - cols + ld) // ld)
    matrix = np.lib.stride_tricks.as_strided(
        flat, (whole, cols), (ld * flat.itemsize, flat.itemsize)
    )
    if whole == rows:
        return matrix
    padded = np.zeros((rows, cols))
    padded[:whole], rest = matrix, flat[whole * ld :][:cols]
    padded[whole, : len(rest)] = rest
    return padded


def _computed(
    problem: Problem,
    number: int,
    flats: Sequence[Flat],
    rows: slice,
    columns: bool = False,
    **other: Any,
) -> tuple[Flat, Flat, Flat]:
    """Return some rows of C, of `alpha*A*B + beta*C` and of `|alpha| |A| |B| + |beta| |C|` in
    float64, as a mistake sees them, of the matrices with a number in a batch.

    `flats` are A, B, the old C and the result. `other` has the values that the mistake uses. With
    `columns`, the matrices are column-major.
    """

    turned = problem.transposed

    def matrix(flat: Flat, height: int, width: int, of: int) -> Flat:
        flat = flat[number * other.get(f"stride_{'abc'[of]}", problem.strides[of]) :]
        ld, turn = f"ld{'abc'[of]}", other.get(f"turn_{'abc'[of]}", turned[of])
        pitch = other.get(ld, getattr(problem, ld))
        if turn != columns:  # each is the other one's transpose
            return _matrix(flat, width, height, pitch).T
        return _matrix(flat, height, width, pitch)

    alpha, beta = (float(value) for value in scalars(problem))
    a, b, old, result = flats
    left, right = (matrix(a, problem.m, problem.k, 0)[rows], matrix(b, problem.k, problem.n, 1))
    old, taken = (matrix(flat, problem.m, problem.n, 2)[rows] for flat in (old, result))
    depth = other.get("k", problem.k)
    return taken, *reference(
        other.get("alpha", alpha), other.get("beta", beta), left[:, :depth], right[:depth], old
    )


def _last(problem: Problem, flats: Sequence[Flat]) -> Flat:
    """Return C of the last matrix of a batch."""
    return _computed(problem, problem.batch - 1, flats, slice(None))[0]


def diagnose(
    problem: Problem, a: Flat, b: Flat, old: Flat, result: Flat, again: Flat, bound: float
) -> Diagnosis | None:
    """Compare the `result` of a launch with float64 and with `again`, that of a second launch.
    Return None if no element is incorrect.

    All arrays are flat, from the first element of the matrix on; `old` is C before the launch. An
    element is incorrect if it is off by more than `bound` times |alpha| |A| |B| + |beta| |C|, or,
    if it must be exact, if it is off at all.
    """
    step = max(1, ROWS // (problem.n * problem.k))
    looked_at = range(problem.batch), range(0, problem.m, step)
    flats = [values(flat) for flat in (a, b, old, result)]

    def differ(
        rows: slice, mine: Flat, wanted: Flat, scale: Flat, exact: bool = True
    ) -> NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):
            close = np.abs(mine - wanted) <= np.where(
                exact & exact_mask(problem)[rows], 0, bound * scale
            )
        right = close | (mine == wanted) | (np.isnan(mine) & np.isnan(wanted))
        off: NDArray[np.bool_] = ~(right | ~np.isfinite(mine)) if is_open(problem) else ~right
        return off

    for number, start in itertools.product(*looked_at):
        rows = slice(start, min(start + step, problem.m))
        block, wanted, scale = _computed(problem, number, flats, rows)
        wrong = differ(rows, block, wanted, scale)
        if wrong.any():
            break
    else:
        return None
    row, column = (int(index) for index in np.argwhere(wrong)[0])
    parts = slice(start + row, start + row + 1), rows  # one row rules out most mistakes

    def same(**other: Any) -> bool:
        """Return whether a mistake gives this result."""
        # it reads NaN beyond the matrices, and so explains any NaN
        if "columns" in other and not np.isfinite(block).any():
            return False
        exact = other.keys().isdisjoint(LAYOUT)
        return not any(
            differ(part, *_computed(problem, number, flats, part, **other), exact).any()
            for part in parts
        )

    places = np.arange(len(result), dtype=float)

    def is_idle(**other: Any) -> bool:
        """Return whether a mistake gives the correct result, in the same place."""
        for part in parts:
            given = problem, number, (*flats[:3], places), part
            own, wanted, scale = _computed(*given)
            place, mistaken, _ = _computed(*given, **other)
            if not np.array_equal(own, place) or differ(part, mistaken, wanted, scale).any():
                return False
        return True

    place = number * problem.strides[2] + (start + row) * problem.ldc + column
    mistakes = list(_mistakes(problem))
    idle = [words for words, other in mistakes if is_idle(**other)]
    if not np.array_equal(result.view(np.uint8), again.view(np.uint8)):
        guesses = [["a race, or memory that nobody set: two launches differ"]]
    else:
        guesses = [[words] for words, other in mistakes if same(**other)]
        # a wrong stride reads the NaN between rows: it explains the same result, but not on
        # problems that have nothing there
        if np.isnan(block).all() or (
            problem.beta == 0 and np.isnan(block[row, column]) and not guesses
        ):
            is_poison = problem.beta == 0 and result[place : place + 1].tobytes() in POISON
            nothing = ONLY_FIRST if number and np.isnan(block).all() else UNTOUCHED
            guesses.insert(0, [nothing if is_poison else COMPUTED])
            idle = [words for words, _ in mistakes]  # NaN hides them
        elif not guesses and problem.batched and np.isnan(_last(problem, flats)).all():
            guesses = [[ONLY_FIRST]]
        elif not guesses and problem.flops < PAIRS_FLOPS:
            pairs = itertools.combinations(
                [mistake for mistake in mistakes if mistake[0] not in idle], 2
            )
            guesses = [
                [mistake, other]
                for (mistake, values_of), (other, values_of_other) in pairs
                if not values_of.keys() & values_of_other and same(**values_of, **values_of_other)
            ]
    if problem.beta != 0:
        idle += [UNTOUCHED, COMPUTED]
    elif not number:
        idle.append(ONLY_FIRST)
    edge = _edge(problem, rows, wrong)
    if edge and not guesses:
        guesses = [[edge]]
    got, expected = float(block[row, column]), float(wanted[row, column])
    return Diagnosis(
        start + row,
        column,
        got,
        expected,
        int(wrong.sum()),
        wrong.size,
        guesses,
        idle,
        number,
        place_in_c(problem, (number * problem.m + start + row) * problem.n + column),
    )


def likeliest(shown: Diagnosis | None, others: Sequence[Diagnosis]) -> str:
    """Return in words the mistake, or the two, that explain the result that is shown and most
    others, at least half; "" for none.

    `shown` is None if no element of C was incorrect on the first problem, as when only elements
    outside C were overwritten. One problem alone suggests too much: a wrong stride reads the NaN
    between rows, whatever it was confused with.
    """
    texts: dict[str, str] = {}
    diagnoses = [shown, *others] if shown else others

    def known(words: Sequence[str]) -> frozenset[str]:
        """Return mistakes without the numbers that depend on the problem."""
        keys = [re.sub(r"\d+", "", text) for text in words]
        for key, text in zip(keys, words, strict=True):
            texts.setdefault(key, text)
        return frozenset(keys)

    results = [
        ([known(words) for words in diagnosis.guesses], known(diagnosis.idle))
        for diagnosis in diagnoses
    ]
    single = list(dict.fromkeys(guess for guesses, _ in results for guess in guesses))
    both = [
        mistake | other
        for mistake, other in itertools.combinations(single, 2)
        if len(mistake | other) == 2
    ]

    def explains(mistakes: frozenset[str], place: int) -> bool:
        guesses, idle = results[place]
        return any(guess <= mistakes and mistakes - guess <= idle for guess in guesses)

    counts = {
        mistakes: sum(explains(mistakes, place) for place in range(len(results)))
        for mistakes in [*single, *both]
    }
    likely = [
        mistakes
        for mistakes, count in counts.items()
        if 2 * count >= len(results) and (shown is None or explains(mistakes, 0))
    ]
    best = max(likely, key=lambda mistakes: (counts[mistakes], -len(mistakes)), default=frozenset())
    return "; and ".join(text for key, text in texts.items() if key in best)


def _mistakes(problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield common mistakes in words, and as arguments of `_computed`."""
    yield "alpha is left out", {"alpha": 1.0}
    yield "beta is left out: the old C is not added", {"beta": 0.0}
    yield "beta is left out: the old C is added as it is", {"beta": float(problem.beta != 0)}
    if problem.beta != 0:
        yield "alpha and beta are exchanged", {"alpha": problem.beta, "beta": problem.alpha}
    others = ("lda", "ldb", "ldc", "K", "N", *("M" if problem.transposed[0] else ""))
    for name in ("lda", "ldb", "ldc"):
        for other in others:
            if other != name:
                words = f"leading dimension: {other} is used instead of {name}"
                yield words, {name: getattr(problem, other.lower())}
    yield (
        "leading dimensions are left out: rows of A are lda apart, those of B ldb, those of C ldc",
        {
            f"ld{matrix}": columns
            for matrix, (_, columns) in zip("abc", problem.shapes, strict=True)
        },
    )
    yield COLUMN_MAJOR, {"columns": True}
    yield (
        COLUMN_MAJOR,
        {"columns": True}
        | {f"ld{matrix}": rows for matrix, (rows, _) in zip("abc", problem.shapes, strict=True)},
    )
    for matrix in (each for each, turned in zip("ab", problem.transposed, strict=False) if turned):
        words = f"the layout is left out: {matrix.upper()} is read as if it were not transposed"
        yield words, {f"turn_{matrix}": False}
    if problem.batched:
        yield from _mistakes_of_batch(problem)
    for left in dict.fromkeys(problem.k % tile for tile in TILES):
        yield f"the last {left} of K are left out", {"k": problem.k - left}


def _mistakes_of_batch(problem: Problem) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what `_mistakes` does for the strides of a batch."""
    stride_a, stride_b, _ = problem.strides
    for names in ("a", "b", "ab"):
        which = " and ".join(names.upper())
        words = f"the stride of the batch is left out: all products have the first {which}"
        yield words, {f"stride_{name}": 0 for name in names}
    exchanged = {"stride_a": stride_b, "stride_b": stride_a}
    yield "the strides of A and B in the batch are exchanged", exchanged
    leading = zip("abc", problem.shapes, (problem.lda, problem.ldb, problem.ldc), strict=True)
    yield (
        "the strides of the batch are not read: the matrices are taken to lie without a gap",
        {f"stride_{name}": rows * ld for name, (rows, _), ld in leading},
    )
    if problem.beta != 0:
        yield ONLY_FIRST, {"alpha": 0.0, "beta": 1.0}


def _edge(problem: Problem, looked_at: slice, wrong: NDArray[np.bool_]) -> str:
    """Return in words whether only the last rows or columns are incorrect; "" if not."""
    places = np.argwhere(wrong)
    row, column = places[:, 0] + looked_at.start, places[:, 1]
    rows, columns = problem.m - int(row.min()), problem.n - int(column.min())
    # the rest that a tile leaves over is smaller than the tile
    if rows <= problem.m // 2 and rows < TILES[0]:
        return f"an edge: only the last {rows} rows are wrong"
    if columns <= problem.n // 2 and columns < TILES[0]:
        return f"an edge: only the last {columns} columns are wrong"
    for tile in reversed(TILES):
        edge = (row >= problem.m - problem.m % tile) | (column >= problem.n - problem.n % tile)
        if edge.all() and problem.m >= tile and problem.n >= tile:
            return f"an edge: only what tiles of {tile} leave over is wrong"
    return ""


def dividing(wrong: Sequence[Problem], right: Sequence[Problem]) -> str:
    """Return the `needs` that all correct problems meet and no incorrect one does: sizes that are
    multiples of a tile; "" for none.

    If several fit, it is the strictest: of two sizes that never occur apart, the kernel may need
    either.
    """
    for names, tile in itertools.product(("MNK", "MN", "MK", "NK", "M", "N", "K"), TILES):

        def divides(problem: Problem, names: str = names, tile: int = tile) -> bool:
            return not any(getattr(problem, name.lower()) % tile for name in names)

        if right and all(map(divides, right)) and not any(map(divides, wrong)):
            return f"needs: [{', '.join(f'{name} % {tile} == 0' for name in names)}]"
    return ""
