"""Whether inputs can be found that a kernel spoils: random ones, and a search without gradients that makes the worst of them worse.

    .venv/bin/python studies/adversary.py [--seconds 600] [--kernel cuda/21_tensor_split] [--seed 0]

The search maximises the error of an element relative to that element of |A| |B|, in units of the float32 roundoff u, as a share of what is
allowed: the bound that `docs/float32-from-tensor-cores.md` proves. An infinity or NaN where float64 has none, or one that is missing, is
infinitely wrong. Every configuration of the kernel's header takes part. Measured are how many inputs were tried, the largest share, the
largest error in u and that of cuBLAS SGEMM on the same input, and the input's making where a share is above 1.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.devices.lock import first_gpu
from ladder.measuring.worker import open_device
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem

Floats = npt.NDArray[np.float32]
U = 2.0**-24
"""The unit roundoff of float32."""
CHUNK = 64
"""Of K, which rung 21 multiplies by tensor cores, or not, at a time."""
LOST, DROPPED, BIAS, CUT = 24, 4, 2, 43
"""The parts of the bound, in units of u * sum of |a|*|b|; the page has their proofs."""
SHAPES = ((8, 32, 64), (24, 40, 200), (70, 130, 700), (130, 66, 2500))
"""M, N, K: fewer chunks than a ring has stages, and more; one tile and several."""
POPULATION = 6
"""Inputs of a shape that are kept and changed further."""
SAFE = 2.0**126
"""Where |A| |B| is below this no order of summation overflows."""
Multiply = Callable[[Floats, Floats], Floats]


def bound(k: int) -> float:
    """The a-priori bound of an element's error, in units of u times that element of |A| |B|."""
    return LOST + DROPPED + BIAS + CUT + 4 * -(-k // CHUNK)


@dataclass
class Trial:
    """An input, the largest error as a share of the bound and in units of u, and the row and column where it is."""

    a: Floats
    b: Floats
    share: float
    units: float
    where: tuple[int, int]


def tried(a: Floats, b: Floats, c: Floats) -> Trial:
    """What C = A B came to; its error is infinite where a NaN or an infinity is in the wrong place."""
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        exact, size = (
            x @ y,
            np.abs(np.nan_to_num(x, nan=0, posinf=0, neginf=0)) @ np.abs(np.nan_to_num(y, nan=0, posinf=0, neginf=0)),
        )
    sure = size < SAFE
    strange = np.isfinite(exact) != np.isfinite(c)
    strange |= np.isnan(exact) != np.isnan(c)
    strange |= np.isinf(exact) & (exact != c)
    if (strange & sure).any():
        return Trial(a, b, np.inf, np.inf, (0, 0))
    kept = sure & np.isfinite(exact)
    with np.errstate(invalid="ignore"):
        wrong = np.maximum(np.abs(c - exact) - a.shape[1] * 2.0**-149, 0)
    errors = np.divide(wrong, size, out=np.zeros_like(size), where=kept & (size > 0)) / U
    row, column = divmod(int(errors.argmax()), errors.shape[1])
    return Trial(a, b, float(errors.max()) / bound(a.shape[1]), float(errors.max()), (row, column))


def drawn(random: np.random.Generator, rows: int, columns: int) -> Floats:
    """A random operand: of some distribution, with rows, columns or elements scaled, zeros, outliers, few digits, and what is not finite."""
    x = random.standard_normal((rows, columns)) if random.random() < 0.5 else random.random((rows, columns))
    for shape in ((rows, 1), (1, columns), (rows, columns)):
        if random.random() < 0.25:
            span = int(random.choice([3, 8, 12, 17, 25, 40]))
            x = np.ldexp(x, random.integers(-span, span + 1, shape))
    if random.random() < 0.4:
        x = x * (random.random((rows, columns)) < random.choice([0.02, 0.1, 0.5, 0.95]))
    if random.random() < 0.3:
        x = np.where(random.random((rows, columns)) < 0.02, x * 10.0 ** random.integers(2, 15), x)
    if random.random() < 0.3:  # few digits
        digits = 2.0 ** random.integers(1, 14)
        x = np.round(x * digits) / digits
    x = x * 10.0 ** int(random.choice([0, 0, 0, 0, -41, -36, -20, 12, 17]))
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    if random.random() < 0.08:
        x[random.integers(rows), random.integers(columns)] = random.choice([np.inf, -np.inf, np.nan])
    return np.ascontiguousarray(x)


def changed(random: np.random.Generator, parent: Trial) -> tuple[Floats, Floats]:
    """A neighbour of an input: one to three changes of some places along K, mostly in the row of A or column of B with the largest error."""
    a, b = parent.a.copy(), parent.b.copy()
    for _ in range(random.integers(1, 4)):
        sides = [(a, b.T, parent.where[0]), (b.T, a, parent.where[1])]  # all with K along their rows
        x, y, worst = sides[random.integers(2)]
        k = random.integers(0, x.shape[1], random.choice([1, 1, 2, 8, 40]))
        at = np.ix_([worst] if random.random() < 0.7 else np.arange(len(x)), k)
        power = np.float32(2.0 ** random.integers(-26, 27))
        with np.errstate(all="ignore"):
            match random.integers(8):
                case 0:
                    x[at] *= power
                case 1:
                    x[at] = 0
                case 2:
                    x[at], y[:, k] = x[at] * power, 0  # what is large meets zeros
                case 3:
                    x[at] = -x[at]
                case 4:
                    x[at] = np.nextafter(x[at], np.float32(random.choice([-np.inf, np.inf])))
                case 5:
                    x[at] = np.ldexp(np.sign(x[at]), np.frexp(x[at])[1])  # a power of two
                case 6:
                    x[at] = random.standard_normal(x[at].shape).astype(np.float32) * np.float32(np.abs(x[at]).max())
                case 7:
                    x[:, k] *= power
                    y[:, k] /= power
    return a, b


def search(multiply: Mapping[str, Multiply], seconds: float, seed: int = 0, most: float = np.inf) -> dict[str, Any]:
    """Try inputs on some ways to multiply, by name, for so long, or until `most` were tried.

    A third are drawn; the others are neighbours of the worst so far of their shape, and take their places where they are worse.
    """
    random, start, count = np.random.default_rng(seed), time.monotonic(), 0
    worst = {shape: list[Trial]() for shape in SHAPES}
    names, spoiled, named = list(multiply), [], ""
    top = Trial(*(np.zeros((1, 1), np.float32),) * 2, -1.0, 0.0, (0, 0))
    while time.monotonic() - start < seconds and count < most:
        m, n, k = SHAPES[random.integers(len(SHAPES))]
        kept = worst[m, n, k]
        if kept and random.random() < 2 / 3:
            a, b = changed(random, kept[random.integers(len(kept))])
        else:
            a, b = drawn(random, m, k), drawn(random, k, n)
        name = names[count % len(names)]
        trial = tried(a, b, multiply[name](a, b))
        count += 1
        if trial.share > 1:
            spoiled.append({"by": name, "share": trial.share, "units": trial.units, "shape": [m, n, k]})
        if trial.share > top.share:
            top, named = trial, name
        if trial.share <= 1:  # what is spoiled is found, and no place to go on from
            worst[m, n, k] = sorted([*kept, trial], key=lambda it: -it.share)[:POPULATION]
    return {
        "tried": count,
        "seconds": time.monotonic() - start,
        "seed": seed,
        "spoiled": len(spoiled),
        "examples": spoiled[:10],
        "worst": {"by": named, "share": top.share, "units": top.units, "shape": [*top.a.shape, top.b.shape[1]]},
        "input": (top.a, top.b),
    }


class Launched:
    """A kernel's configuration, or the reference, on a GPU."""

    def __init__(self, device: Any, prepare: Callable[[], Any]) -> None:
        self.device, self.prepare = device, prepare

    def __call__(self, a: Floats, b: Floats) -> Floats:
        import pycuda.driver as cuda

        problem = Problem(a.shape[0], b.shape[1], a.shape[1])
        operands = self.device.operands(problem)
        addresses = self.device.spare()
        for address, matrix in zip(addresses, (a, b), strict=False):
            cuda.memcpy_htod(address, np.ascontiguousarray(matrix))
        c = np.full((problem.m, problem.n), np.nan, np.float32)
        cuda.memcpy_htod(addresses[2], c)
        self.prepare().bind(*addresses)()
        self.device.stream.synchronize()
        cuda.memcpy_dtoh(c, addresses[2])
        self.device.free(operands)
        return c


def main() -> None:
    """Search on a GPU, and write the answer; exit status 1 if an input was spoiled."""
    parser = command_line(__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--kernel", default="cuda/21_tensor_split")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    gpu, kernel = first_gpu(), discover(ROOT)[given.kernel]
    legal = list(kernel.expand({}, ["float32"]))
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        rows = compile_kernel(kernel, legal, gpu.arch, Path(scratch), len(os.sched_getaffinity(0)))
        device = open_device("cuda", gpu.uuids[0], support)
        ways: dict[str, Multiply] = {}
        for (configuration, _), row in zip(legal, rows, strict=True):
            if row.status == "compiled":
                binary = (Path(scratch) / row.binary).read_bytes()
                ways[configuration.label] = Launched(device, partial(device.kernel, kernel, configuration, binary))
        if not ways:
            sys.exit(f"{kernel.id}: {rows[0].status}: {rows[0].reason}")
        measured = search(ways, given.seconds, given.seed)
        a, b = measured.pop("input")
        measured["worst"]["sgemm_units"] = tried(a, b, Launched(device, partial(device.baseline, "cublas"))(a, b)).units
        device.close()
    measured["kernel"] = kernel.id
    STUDIES["adversary"].write(gpu, measured, uuids=[gpu.uuids[0]], binaries={row.configuration: row.sha256 for row in rows})
    sys.exit(int(measured["spoiled"] > 0))


if __name__ == "__main__":
    main()
