"""Whether it matters where operands begin in memory: the problems of `beyond-cublas`, at boundaries of 2 MiB and at places left to chance.

    .venv/bin/python studies/placement.py [DATASET]      on a GPU; about 2 minutes

The driver begins large allocations at such boundaries; in a campaign operands begin at any multiple of 256 bytes within a MiB of them, anew
for every process. Each problem's fastest rung, by a published dataset and the rule of the tables made of it, is timed beside cuBLAS in the
same rounds, with operands at the boundaries and at a few other places. Measured are the medians of both in microseconds, and how many times
as fast the rung is.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices.lock import first_gpu
from ladder.measuring import timing
from ladder.measuring.worker import open_device
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.publishing.page_data import Story
from ladder.publishing.page_tables import fastest_rungs

DATASET = "nvidia-h200-beyond-cublas"
PLACES = 5
LIMITS = Limits(min_samples=10, max_samples=10, target=1e-6, race=False)


STUDY = STUDIES["placement"]


def chosen(dataset: str) -> list[tuple[Problem, str, Configuration]]:
    """Every problem of a published dataset with the kernel and configuration of its fastest rung."""
    found = []
    for row in fastest_rungs(Story(ROOT).published(dataset)):
        m, n, k = (int(row[name]) for name in "mnk")
        problem = Problem(m, n, k, alpha=float(row["alpha"]), beta=float(row["beta"]), padding=int(row["padding"]))
        found.append((problem, row["kernel"], Configuration.of("float32", row["configuration"])))
    return found


def main() -> None:
    """Measure, print and write."""
    parser = command_line(__doc__)
    parser.add_argument("dataset", nargs="?", default=DATASET)
    dataset = parser.parse_args().dataset
    gpu, known = first_gpu(), discover(ROOT)
    rows: list[dict[str, Any]] = []
    binaries = {}
    from ladder.devices import cuda_operands
    from ladder.devices import operands as devices

    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        chance = devices.GUARD, devices.RESULT_SHIFTS, cuda_operands.SHIFTS
        for problem, rung, configuration in chosen(dataset):
            kernel = known[f"cuda/{rung}"]
            (built,) = compile_kernel(kernel, [(configuration, "")], gpu.arch, Path(scratch) / rung, 1)
            binaries[f"{rung} {configuration.label}"] = built.sha256
            places = []
            for place in range(1 + PLACES):
                devices.GUARD, devices.RESULT_SHIFTS, cuda_operands.SHIFTS = chance if place else (0, 1, 1)
                operands = device.operands(problem)
                reference = device.baseline("cublas")
                launches = {0: device.kernel(kernel, configuration, (Path(scratch) / rung / built.binary).read_bytes())}
                ((_, series),) = (item for item in timing.measure(device, launches, reference, "warm", LIMITS, place) if item)
                if series.fault:
                    sys.exit(f"{rung} on {problem.label}: {series.fault}")
                times = [median_interval(samples)[0] for samples in (series.samples, series.reference)]
                ratio = median_interval([theirs / ours for ours, theirs in zip(series.samples, series.reference, strict=True)])[0]
                places.append({"rung_us": times[0], "cublas_us": times[1], "ratio": ratio})
                device.free(operands)
            name = f"{rung} {configuration.label}"
            rows.append({"problem": problem.label, "rung": name, "aligned": places[0], "elsewhere": places[1:]})
            print(f"{problem.label}: {rung}", *(f"{place['ratio']:.3f}" for place in places), flush=True)
        device.close()
    STUDY.write(gpu, {"dataset": dataset, "rows": rows}, uuids=[gpu.uuids[0]], binaries=binaries)


if __name__ == "__main__":
    main()
