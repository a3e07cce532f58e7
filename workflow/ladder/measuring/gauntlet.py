"""The small problems that every configuration must compute correctly before it is timed: where GEMM
kernels fail.

The measurements, the GPU tests and the emulation share this list.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from ladder.devices.operands import WHOLE, exactly
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem, joined

PROBLEMS = (
    Problem(1, 1, 1),
    Problem(1, 1, 257, alpha=-0.5),
    Problem(1, 129, 1, beta=2.0),
    Problem(127, 1, 63, padding=1),
    Problem(1, 1000, 31, padding=4, alpha=2.0, beta=0.5),
    Problem(2, 3, 5, offset=1),
    Problem(7, 13, 3, padding=3, alpha=0.5, beta=-1.0),
    Problem(15, 17, 16),
    Problem(16, 16, 17, padding=4),
    Problem(31, 33, 37, offset=2, beta=1.0),
    Problem(32, 64, 8, alpha=2.0),
    # row lengths suit vector accesses, but the first address does not
    Problem(36, 40, 12, offset=1),
    Problem(32, 33, 48, padding=1),
    Problem(33, 31, 1, padding=2),
    Problem(35, 29, 2),  # `exact` has 23 bits in B where K is 1, in A where it is 2
    Problem(64, 64, 64),
    Problem(63, 65, 129, offset=3, padding=1, alpha=-1.0, beta=0.5),
    Problem(64, 32, 64, beta=-0.5),
    Problem(65, 63, 15, padding=7),
    Problem(97, 101, 103, padding=5, alpha=0.5, beta=2.0),
    Problem(127, 129, 9),
    Problem(128, 128, 128, padding=4, alpha=2.0, beta=-1.0),
    Problem(129, 127, 65, offset=1, padding=3),
    Problem(191, 67, 200, beta=0.5),
    Problem(255, 257, 33),
    Problem(257, 255, 70, padding=8, alpha=-2.0),
    Problem(300, 5, 1025, padding=1, beta=1.0),
    Problem(5, 515, 515, alpha=0.5),
    Problem(130, 259, 516, padding=2, offset=2, alpha=-1.0, beta=0.5),
    # each of the strides, and of the addresses, may be the one that does not suit vector accesses
    Problem(36, 44, 40, padding="1,0,0", alpha=2.0),
    Problem(33, 64, 40, padding="0,1,0"),
    Problem(40, 36, 44, padding="0,0,1", beta=1.0),
    Problem(48, 80, 64, padding="8,0,4", offset="1,0,0"),
    Problem(64, 96, 48, padding="0,4,8", offset="0,1,0", alpha=0.5),
    Problem(96, 64, 80, padding="4,8,0", offset="0,0,1", beta=-1.0),
    Problem(37, 41, 29, padding="3,0,5", offset="2,1,3", alpha=-0.5, beta=2.0),
    Problem(65, 34, 8, padding="1,0,2", alpha=0.0, beta=-0.5),
    Problem(34, 65, 8, alpha=0.0),
    # rows of A and B begin at multiples of 16 bytes, as some kernels need it, but those of C do
    # not, and no size is a multiple of anything
    Problem(3, 5, 7, padding="1,3,3", alpha=-0.5, beta=2.0),
    Problem(127, 129, 63, padding="1,7,1", offset="8,0,3"),
    Problem(193, 515, 264, padding="8,5,0", offset="0,8,1", beta=-0.5),
    Problem(1, 261, 1021, padding="3,3,0"),
    Problem(391, 131, 527, padding="9,5,5", alpha=2.0),
)
"""Problems on whole numbers, compared to the bit. alpha and beta are powers of two; `offset` and
`padding` are in elements.
"""
AT_ONCE = Problem(40, 48, 64, beta=0.7, distribution="normal")
"""On a CPU, launches in two threads at once on this one as well. No 16-bit type has this beta."""
ROUNDED = (
    Problem(61, 67, 1031, padding=1, alpha=1.25, beta=-0.75),
    Problem(67, 61, 300, distribution="nonfinite"),
    # C too has infinities and NaN, which count
    Problem(34, 65, 9, padding="0,2,1", beta=0.75, distribution="nonfinite"),
    Problem(129, 65, 511, distribution="positive", alpha=-0.3),
    Problem(70, 90, 200, distribution="mixed", offset=1),
    # scales differ by rows and columns, and within them: errors must be small beside each element,
    # not beside the matrix
    Problem(129, 131, 130, distribution="scaled"),
    Problem(65, 66, 140, padding=1, distribution="lognormal"),
    AT_ONCE,
    # NaN in C is only marked there: see `verify.is_open`
    Problem(65, 34, 8, padding="1,0,2", alpha=0.0, beta=-0.5, distribution="nonfinite"),
)
"""Problems on numbers that are rounded: within the bounds of `verify`, with infinities and NaN
where float64 has them. Of `mixed` those elements that are sums of whole numbers are compared to the
bit.
"""

IN_BATCH = (2, 3, 4, 7)
"""How many products the problems have for a kernel that is compiled for batches, in turns."""
MANY = Problem(20, 24, 40, padding="0,8,4", alpha=0.5, beta=-1.0, batch=133)
"""For such a kernel as well: more matrices than an H200 has multiprocessors."""
LONG = (Problem(1, 65_537, 1), Problem(65_537, 1, 1))
"""For kernels alone: sizes beyond 16 bits."""
OF_CPU = (
    Problem(1, 1, 65_537),
    Problem(4, 8, 4, alpha=-1.0, beta=0.5, padding=",".join(3 * [str((1 << 31) - (1 << 20))])),
)
"""For kernels on a CPU alone: a K beyond 16 bits, for which one thread of a GPU would take long;
and places of elements beyond 32 bits, with a sign or without. There no memory may be read behind
the last element.
"""

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""What sizes, leading dimensions and offsets are rounded up to multiples of for a kernel that needs
something.
"""
DENSE = 0
"""In place of such a step: rows without padding."""


@lru_cache
def problems(
    element_type: str, precision: str = "", layout: str = "nn", batched: bool = False
) -> Sequence[Problem]:
    """Return the gauntlet for an element type and a layout, single products or batches, with the
    whole numbers of a header's `precision`. A bound on the norm leaves open what infinities, and rows of other numbers, do to
    an element.
    """
    whole = WHOLE[precision]
    rounded = [
        problem
        for problem in ROUNDED
        if precision != "normwise" or problem.distribution not in ("mixed", "nonfinite")
    ]
    exact = [replace(problem, distribution=whole) for problem in PROBLEMS]
    every = [
        replace(problem, element_type=element_type, layout=layout) for problem in [*exact, *rounded]
    ]
    return in_batches(every) if batched else every


def in_batches(every: Iterable[Problem]) -> list[Problem]:
    """Return problems with as many products as `IN_BATCH` has in turns."""
    counts = itertools.cycle(IN_BATCH)
    return [replace(problem, batch=count) for problem, count in zip(every, counts, strict=False)]


def of_kernel(
    kernel: Kernel, element_type: str, layout: str = "nn", batched: bool = False
) -> list[Problem]:
    """Return the gauntlet of a kernel that needs nothing, compiled for a layout, and perhaps for
    batches: also `LONG`, and `OF_CPU` on a CPU, or `MANY`.
    """
    further = [*LONG, *(OF_CPU if kernel.kind == "cpu" else ())]
    if batched:
        further = [*in_batches(LONG), MANY]
    exact = [
        exactly(replace(problem, element_type=element_type, layout=layout), kernel.precision)
        for problem in further
    ]
    return [*problems(element_type, kernel.precision, layout, batched), *exact]


def problems_for(
    kernel: Kernel, configuration: Configuration, device: Mapping[str, int]
) -> list[Problem]:
    """Return the gauntlet of a configuration on a device with these names: each problem as
    `rounded` makes it for what the kernel needs.

    Problems that no rounding suits, and those that have become the same, are left out.
    """

    def meets(problem: Problem) -> bool:
        return not kernel.unmet_need(configuration, {**problem.names(), **device})

    every = of_kernel(kernel, configuration.element_type, *configuration.form)
    nearest = (rounded(problem, meets) for problem in every)
    return list(dict.fromkeys(problem for problem in nearest if problem))


def rounded(problem: Problem, meets: Callable[[Problem], bool]) -> Problem | None:
    """Return the problem, or the one nearest to it that `meets` accepts; None if there is none.

    Sizes, leading dimensions and offsets are rounded up to multiples of one of `STEPS`. A matrix
    may also lose its padding, M, N and K become equal, alpha 1, and beta 0 or 1.
    """
    if meets(problem):
        return problem
    middle = sorted((problem.m, problem.n, problem.k))[1]
    nearest = (
        _nearest(start, meets)
        for start in (problem, replace(problem, m=middle, n=middle, k=middle))
    )

    def distance(other: Problem) -> float:
        return sum(abs(math.log(getattr(other, size) / getattr(problem, size))) for size in "mnk")

    return min((other for other in nearest if other), key=distance, default=None)


def _nearest(problem: Problem, meets: Callable[[Problem], bool]) -> Problem | None:
    """Return what `rounded` does, as near as sizes rounded up are: first all is rounded alike, then
    each number as little as suffices.
    """
    alphas, betas = dict.fromkeys((problem.alpha, 1.0)), dict.fromkeys((problem.beta, 0.0, 1.0))
    for dense, alpha, beta, step in itertools.product((False, True), alphas, betas, STEPS):
        base = replace(problem, alpha=alpha, beta=beta)
        steps = [step] * 3 + [DENSE if dense else step] * 3 + [step] * 3
        if meets(_round_up(base, steps)):
            break
    else:
        return None
    for place, needed in enumerate(steps):
        tries = (
            [*steps[:place], least, *steps[place + 1 :]]
            for least in STEPS
            if least < needed or needed == DENSE
        )
        steps = next((fewer for fewer in tries if meets(_round_up(base, fewer))), steps)
    return _round_up(base, steps)


def _round_up(problem: Problem, steps: Sequence[int]) -> Problem:
    """Return a problem with M, N, K, lda, ldb, ldc and the offsets of A, B and C rounded up to
    multiples of nine steps.
    """

    def up(number: int, step: int) -> int:
        return -(-number // step) * step

    m, n, k = map(up, (problem.m, problem.n, problem.k), steps[:3])
    problem = replace(problem, m=m, n=n, k=k)
    paddings = [
        up(row + padding, step) - row if step != DENSE else 0
        for (_, row), padding, step in zip(
            problem.shapes, problem.paddings, steps[3:6], strict=True
        )
    ]
    offsets = list(map(up, problem.offsets, steps[6:]))
    return replace(problem, padding=joined(paddings, of_c=2), offset=joined(offsets))


def describe(problem: Problem) -> str:
    """Return what sets a problem apart, for messages: `M=7 N=13 K=3 padding=3 offset=1 alpha=0.5
    beta=-1 exact`.
    """
    names = ("batch", "layout", "padding", "offset", "alpha", "beta")
    extras = {name: getattr(problem, name) for name in names}
    usual = vars(Problem(1, 1, 1))
    words = [
        f"{name}={value if isinstance(value, str) else format(value, 'g')}"
        for name, value in extras.items()
        if value != usual[name]
    ]
    return " ".join([f"M={problem.m} N={problem.n} K={problem.k}", *words, problem.distribution])
