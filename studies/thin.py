"""Why rung 04 of the CPU ladder is ahead of BLAS where C has few rows: what a call takes whatever M is, and what a row of C takes.

    .venv/bin/python studies/thin.py [STRETCHES]      about 10 s a stretch

A is M x 1024 and B 1024 x 1024. Both with one thread, in the same rounds, for several M; lines are laid through the times, `fixed + row * M`,
by least squares of the relative differences. What does not grow with M is what is done with B alone: it is read, and copied into the order
of the innermost step. Measured are both, in microseconds, each the median of all stretches, and how far a time is off its line at most.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from disturbance import stretch
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line, furthest, percent
from ladder.compiling.compile import compile_support
from ladder.core.stats import median_interval
from ladder.devices.detect import detect_cpu
from ladder.measuring.worker import open_device
from ladder.model.campaign import Limits
from ladder.model.problem import Problem
from neighbours import contestants

RUNG = "cpu/04_vectorized_parallel"
ROWS = (24, 36, 48, 96, 192, 384)
"""Whole slivers of the rung's, of 12 rows."""
SIDE = 1024
LIMITS = Limits(min_samples=30, max_samples=30, target=1e-6, race=False)


STUDY = STUDIES["thin"]


def line(rows: Mapping[int, float]) -> dict[str, float]:
    """The line through times in microseconds by rows of C: `fixed_us`, `row_us`, and `off`, the ratio to it that is furthest from 1."""
    m, times = np.array(list(rows), float), np.array(list(rows.values()))
    (fixed, row), *_ = np.linalg.lstsq(np.stack([1 / times, m / times], axis=1), np.ones(len(m)))
    return {"fixed_us": fixed, "row_us": row, "off": furthest(times / (fixed + row * m))}


def measure(stretches: int, rows: tuple[int, ...] = ROWS, side: int = SIDE, limits: Limits = LIMITS) -> dict[str, Any]:
    """Times in microseconds of `blas_1` and the rung by rows of C, the lines through them, and the digest of the rung's binary."""
    times: dict[str, dict[int, float]] = {"blas_1": {}, RUNG: {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "support.so").write_bytes(compile_support("cpu", detect_cpu().arch))
        device = open_device("cpu", "", folder / "support.so")
        for m in rows:
            problem = Problem(m, side, side)
            operands = device.operands(problem)
            launches, binaries = contestants(device, problem, folder, ("blas_1",), RUNG, THREADS=1)
            timed = dict(enumerate(launches.values()))
            medians = [stretch(device, timed, timed[0], limits)[0] for _ in range(stretches)]
            for name, of in zip(launches, zip(*medians, strict=True), strict=True):
                times[name][m] = median_interval(of)[0]
            device.free(operands)
        device.close()
    lines = [{"name": name, **line(of)} for name, of in times.items()]
    return {"side": side, "stretches": stretches, "times_us": times, "lines": lines, "binaries": binaries}


def main() -> None:
    """Measure, and write what was found."""
    parser = command_line(__doc__)
    parser.add_argument("stretches", type=int, nargs="?", default=6)
    stretches = parser.parse_args().stretches
    measured = measure(stretches)
    print(*(f"{one['name']}: a time is {percent(one['off'])} off its line at most" for one in measured["lines"]), sep="\n")
    STUDY.write(detect_cpu(), measured, binaries=measured.pop("binaries"))


if __name__ == "__main__":
    main()
