"""Whether another harness measures what ours does: cuBLAS and two rungs at three sizes, on a GPU.

    .venv/bin/python studies/agreement.py --other python3

`--other` is an interpreter that has CuPy and PyTorch, which the lock does not have; it runs `studies/other_harness.py`. Ours times
first and hands over cubins and launch shapes; the other allocates for itself and loads and times the same:

- warm: launches back to back, in a graph here and there;
- cold: the state that is published. Here after a flush, each launch of a graph on another copy of the operands; there a longer graph whose
  launches take turns on copies that together exceed twice the L2.

Both call cuBLAS by the same function, with a workspace of the same size. Each side queues all on one stream: once a process has used
two, it pays more between kernels, and cuBLAS takes two of them at 512, which depend on each other (slices of K, and their sum). Operands
begin where the allocator of each side has them. docs/evidence.md, `placement`, says what that moves.

Exit status 1 if a median differs by more than 2 %.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import answer
from answer import command_line, first_gpu, furthest, percent
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.errors import InputError
from ladder.core.places import HOME
from ladder.devices import operands
from ladder.devices.base import Launch
from ladder.measuring import timing
from ladder.measuring.protocol import Time
from ladder.measuring.verify import judge
from ladder.measuring.worker import opener
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem

WITHIN = 0.02
SIZES = (512, 2048, 8192)
RUNGS = ("cuda/03_shared_tile", "cuda/10_block_tile_128")
STATES = ("warm", "cold")
QUESTION = "Do other harnesses measure the same times?"


class Bench:
    """A GPU of this machine that measures in this process, and the digests of what it has
    compiled.
    """

    def __init__(self, folder: Path) -> None:
        self.here, self.folder = first_gpu(), folder
        self.uuids = list(self.here.uuids[:1])
        (folder / "support").write_bytes(compile_support("cuda", self.here.arch))
        self.device = opener("cuda")(self.uuids[0], folder / "support")
        self.binaries: dict[str, str] = {}

    @contextmanager
    def on(self, problem: Problem) -> Iterator[None]:
        """Have the operands of a problem in use."""
        self.problem, drawn = problem, self.device.operands(problem)
        try:
            yield
        finally:
            self.device.free(drawn)

    def kernel(self, kernel: Kernel, configuration: Configuration) -> Launch:
        """A kernel in a configuration, compiled, and correct on the present problem. Raises
        `InputError` if it is not.
        """
        folder = self.folder / kernel.name
        (row,) = compile_kernel(kernel, [(configuration, "")], self.here.arch, folder, 1)
        if row.status != "compiled":
            raise InputError(f"{kernel.id}: {configuration.label}: {row.status}: {row.reason}")
        self.binaries[f"{kernel.name} {configuration.label}"] = row.sha256
        self.built = folder / row.binary
        return self.check(self.device.kernel(kernel, configuration, self.built.read_bytes()))

    def check(self, launch: Launch) -> Launch:
        """The launch. Raises `InputError` if its result is not correct."""
        verdict = judge(self.device.check(launch), self.problem)
        if verdict.status != "correct":
            raise InputError(f"{self.problem.label}: {verdict.status}: {verdict.reason}")
        return launch


@contextmanager
def at_boundaries() -> Iterator[None]:
    """Have operands begin where the driver's allocator puts them."""
    from ladder.devices import cuda_operands  # which needs the driver

    with (
        mock.patch.multiple(operands, GUARD=0, RESULT_SHIFTS=1),
        mock.patch.object(cuda_operands, "SHIFTS", 1),
    ):
        yield


def furthest_ratio(rows: Sequence[Mapping[str, Any]], states: Sequence[str] = STATES) -> float:
    """Return the ratio of our times to theirs that is furthest from 1."""
    return furthest(row["ours"][state] / row["theirs"][state] for row in rows for state in states)


def short(measured: Mapping[str, Any]) -> str:
    """Return the largest difference to another harness."""
    return f"Within {100 * abs(furthest_ratio(measured['rows']) - 1):.1f} %, warm and cold"


def long(measured: Mapping[str, Any]) -> str:
    """Return how far the medians differ in either state."""
    rows = measured["rows"]
    names = ", ".join(dict.fromkeys(row["name"] for row in rows))
    sizes = ", ".join(dict.fromkeys(str(row["size"]) for row in rows))
    warm, cold = (percent(furthest_ratio(rows, [state])) for state in STATES)
    return f"{names} at {sizes}: `warm` differs by at most {warm}, `cold` by {cold}"


def medians(bench: Bench, launch: Launch) -> dict[str, float]:
    """In microseconds, of a launch on the operands in use, timed beside itself."""
    by_state = {}
    for state in STATES:
        limits = Limits(min_samples=30, max_samples=60, race=False)
        rounds = timing.Rounds(bench.device, [launch], launch, Time([], state, limits, 0, 0.0))
        series: dict[int, timing.Series] = {}
        while not rounds.done:
            series |= rounds.next()
        by_state[state] = median(series[0].samples)
    return by_state


def ours(bench: Bench, sizes: list[int]) -> list[dict[str, Any]]:
    """What the other harness needs to launch the same, and our times of it."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        with bench.on(problem := Problem(size, size, size)):
            cublas = bench.check(bench.device.baseline("cublas"))
            rows.append({"size": size, "name": "cublas", "how": {}, "ours": medians(bench, cublas)})
            for kernel in (discover(HOME)[id] for id in RUNGS):
                chosen = Configuration("float32", tuple(kernel.parameters.items()))
                launch = bench.kernel(kernel, chosen)
                (shape,) = kernel.launches(chosen, {**problem.names(), **bench.device.names})
                how = {
                    "cubin": str(bench.built),
                    "grid": shape.grid,
                    "block": shape.block,
                    "shared": shape.dynamic_shared,
                }
                times = medians(bench, launch)
                rows.append({"size": size, "name": kernel.name, "how": how, "ours": times})
    return rows


def main() -> None:
    """Have both time, print and write."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--other", default="python3", help="an interpreter that has CuPy and PyTorch"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        bench = Bench(folder)
        with at_boundaries():
            rows = ours(bench, given.sizes)
        library = getattr(bench.device, "blas").version()  # noqa: B009 - of the CUDA device only
        bench.device.close()
        (folder / "rows.json").write_text(json.dumps(rows))
        subprocess.run(
            [given.other, str(HOME / "studies" / "other_harness.py"), str(folder / "rows.json")],
            check=True,
        )
        other = json.loads((folder / "theirs.json").read_text())
    for row, times in zip(rows, other["rows"], strict=True):
        row["how"].pop("cubin", None)
        row["theirs"] = times
        print(
            row["size"],
            row["name"],
            *(f"{state} {percent(row['ours'][state] / times[state])}" for state in STATES),
        )
    measured = {"within": WITHIN, "rows": rows}
    software = {"our cublas": library, **other["software"]}
    answer.write(
        "agreement",
        QUESTION,
        short(measured),
        long(measured),
        bench.here,
        measured,
        [discover(HOME)[id] for id in RUNGS],
        uuids=bench.uuids,
        binaries=bench.binaries,
        software=software,
    )
    sys.exit(int(abs(furthest_ratio(rows) - 1) > WITHIN))


if __name__ == "__main__":
    main()
