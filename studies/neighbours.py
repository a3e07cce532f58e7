"""Whether BLAS on all threads disturbs what is timed beside it on the CPU: BLAS with one thread and a rung, with it and alone.

    .venv/bin/python studies/neighbours.py [PAIRS]      about 10 s a pair

OpenBLAS's threads spin for a while after a call, on cores that the next launch wants; the CPU device waits until they are at rest. Stretches
of measuring alternate: alone; beside `blas_all`; and beside it without the wait, to see what it is for. Measured are the ratios of the
medians to those of the stretch alone before, of every pair, and the median of each.
"""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from disturbance import stretch
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices import cpu, detect
from ladder.devices.base import Device, Launch
from ladder.measuring.verify import judge
from ladder.measuring.worker import open_device
from ladder.model import kernel_file
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem

SIZES = (256, 1024)
RUNG = "cpu/03_blocked"
LIMITS = Limits(min_samples=20, max_samples=20, target=1e-6, race=False)


STUDY = STUDIES["neighbours"]


def compare(device: Device, launches: Mapping[str, Launch], pairs: int, limits: Limits = LIMITS) -> list[dict[str, Any]]:
    """Ratios of the medians of `blas_1` and the rung to those alone, for each; `launches` are these two and `blas_all`."""
    alone = {index: launches[name] for index, name in enumerate(launches) if name != "blas_all"}
    both = alone | {len(launches): launches["blas_all"]}
    ratios: dict[str, dict[str, list[float]]] = {name: {"beside": [], "unsettled": []} for name in launches if name != "blas_all"}
    for _ in range(pairs):
        quiet, _seconds = stretch(device, alone, launches["blas_1"], limits)
        beside, _seconds = stretch(device, both, launches["blas_1"], limits)
        with mock.patch.object(cpu, "_settle", lambda: None):
            unsettled, _seconds = stretch(device, both, launches["blas_1"], limits)
        for index, name in enumerate(ratios):
            ratios[name]["beside"].append(beside[index] / quiet[index])
            ratios[name]["unsettled"].append(unsettled[index] / quiet[index])
    return [
        {"name": name, **{how: median_interval(values)[0] for how, values in by.items()}, "ratios": by}
        for name, by in ratios.items()
    ]


def contestants(
    device: Device, problem: Problem, folder: Path, baselines: Sequence[str], rung: str, **parameters: int
) -> tuple[dict[str, Launch], dict[str, str]]:
    """The launches on the operands in use, of baselines and a rung with these parameters, and the digest of the rung's binary."""
    kernel = kernel_file.discover(ROOT)[rung]
    chosen = Configuration("float32", tuple({**kernel.parameters, **parameters}.items()))
    (row,) = compile_kernel(kernel, [(chosen, "")], detect.detect_cpu().arch, folder, 1)
    launches = {name: device.baseline(name) for name in baselines}
    launches[rung] = device.kernel(kernel, chosen, (folder / row.binary).read_bytes())
    for launch in launches.values():
        verdict = judge(device.check(launch), problem)
        if verdict.status != "correct":
            sys.exit(f"{problem.label}: {verdict.reason}")
    return launches, {f"{rung} {chosen.label}": row.sha256}


def main() -> None:
    """Measure, and write what was found."""
    parser = command_line(__doc__)
    parser.add_argument("pairs", type=int, nargs="?", default=6)
    pairs = parser.parse_args().pairs
    here = detect.detect_cpu()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.so"
        support.write_bytes(compile_support("cpu", here.arch))
        device = open_device("cpu", "", support)
        for size in SIZES:
            problem = Problem(size, size, size)
            operands = device.operands(problem)
            launches, binaries = contestants(device, problem, Path(scratch), ("blas_1", "blas_all"), RUNG)
            rows += [{"size": size, **row} for row in compare(device, launches, pairs)]
            device.free(operands)
        device.close()
    STUDY.write(here, {"cores": cpu.available_cores(), "sizes": SIZES, "pairs": pairs, "rows": rows}, binaries=binaries)


if __name__ == "__main__":
    main()
