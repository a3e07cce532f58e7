"""How fast float32 results from tensor cores are, beside SGEMM and each by itself, and on operands that no tensor core may multiply.

    .venv/bin/python studies/tensor.py [DATASET]      on a GPU of compute capability 9.0; about a minute

Tensor cores draw so much power that what is timed in the same rounds is timed at a lower clock. So rung 21, in its best configuration by a
published dataset, and cuBLAS are timed in the same rounds; each beside itself alone; and each launched again and again for some seconds, with
the energy that the board counts. Then all its configurations in the same rounds on operands of which every chunk is left to float32, and the
fastest is told. Measured are times of a launch in microseconds, and joules.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ladder.analysis.dataset import Dataset
from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices.base import Device, Launch
from ladder.devices.lock import first_gpu
from ladder.measuring import timing
from ladder.measuring.verify import judge
from ladder.measuring.worker import open_device
from ladder.model.campaign import Limits
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.storage.dataset_layout import PUBLISHED

KERNEL = "21_tensor_split"
DATASET = "nvidia-h200"
SIZES = (512, 1024, 2048, 4096, 8192)
NAMES = ("rung_us", "sgemm_us")
HELD_SECONDS = 3.0
UNFIT = "lognormal"
"""The distribution of which no chunk fits."""
LIMITS = Limits(min_samples=20, max_samples=20, target=1e-6, race=False)
FEW = replace(LIMITS, min_samples=5, max_samples=5)
"""For all configurations, of which most are slow on operands that do not fit."""


STUDY = STUDIES["tensor"]


Rung = Callable[[], Launch]
"""A configuration's launch on the present problem."""


def timed(device: Device, launches: Sequence[Launch], reference: Launch, limits: Limits = LIMITS) -> list[list[float]]:
    """Of each, medians of launches and of the reference in the same rounds. Exits where a result is wrong."""
    found = {}
    for index, series in filter(None, timing.measure(device, dict(enumerate(launches)), reference, "warm", limits, 0)):
        if series.fault:
            sys.exit(series.fault)
        found[index] = [median_interval(samples)[0] for samples in (series.samples, series.reference)]
    return [found[index] for index in range(len(launches))]


def right(device: Device, problem: Problem, launches: Iterable[Launch]) -> None:
    """Exit where a result is wrong."""
    for launch in launches:
        verdict = judge(device.check(launch), problem)
        if verdict.status != "correct":
            sys.exit(f"{problem.label}: {verdict.status}: {verdict.reason}")


def fitting(device: Device, size: int, made: Rung) -> dict[str, Any]:
    """Times in the same rounds, each beside itself, and held, with joules."""
    problem = Problem(size, size, size)
    operands = device.operands(problem)
    rung, sgemm = made(), device.baseline("cublas")
    right(device, problem, (rung, sgemm))
    alone = {name: timed(device, [one], one)[0][0] for name, one in zip(NAMES, (rung, sgemm), strict=True)}
    row: dict[str, Any] = {
        "together": dict(zip(NAMES, timed(device, [rung], sgemm)[0], strict=True)),
        "alone": alone,
        "held": {},
    }
    for name, launch in zip(NAMES, (rung, sgemm), strict=True):
        repeats = max(1, round(LIMITS.sample_us / alone[name]))
        counted = device.energy(device.sample(launch, repeats), HELD_SECONDS)
        if counted is None:
            sys.exit("the GPU's energy cannot be read")
        row["held"] |= {name: counted[1] / repeats, name.replace("_us", "_j"): counted[0] / repeats}
    device.free(operands)
    return row


def unfit(device: Device, size: int, rungs: Mapping[str, Rung]) -> dict[str, Any]:
    """The configuration that is fastest beside SGEMM where no chunk fits, as a campaign on such operands would choose it."""
    problem = Problem(size, size, size, distribution=UNFIT)
    operands = device.operands(problem)
    launches, sgemm = [made() for made in rungs.values()], device.baseline("cublas")
    right(device, problem, (*launches, sgemm))
    found = dict(zip(rungs, timed(device, launches, sgemm, FEW), strict=True))
    best = max(found, key=lambda label: found[label][1] / found[label][0])
    device.free(operands)
    return {"configuration": best, **dict(zip(NAMES, found[best], strict=True))}


def main() -> None:
    """Measure, print and write."""
    parser = command_line(__doc__)
    parser.add_argument("dataset", nargs="?", default=DATASET)
    dataset = parser.parse_args().dataset
    gpu, kernel = first_gpu(), discover(ROOT)[f"cuda/{KERNEL}"]
    best = Dataset.open(ROOT / PUBLISHED / dataset, [kernel]).best
    best = best[(best["kernel"] == KERNEL) & (best["state"] == "warm")].set_index("problem")["configuration"]
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        support, build = Path(scratch) / "support.bin", Path(scratch) / "build"
        support.write_bytes(compile_support("cuda", gpu.arch))
        configurations = list(kernel.expand({}, ["float32"]))
        built = compile_kernel(kernel, configurations, gpu.arch, build, len(os.sched_getaffinity(0)))
        device = open_device("cuda", gpu.uuids[0], support)
        rungs = {
            one.label: partial(device.kernel, kernel, one, (build / row.binary).read_bytes())
            for (one, _), row in zip(configurations, built, strict=True)
        }
        for size in SIZES:
            chosen = best[str(size)]
            rows.append(
                {"size": size, "configuration": chosen}
                | fitting(device, size, rungs[chosen])
                | {"unfit": unfit(device, size, rungs)}
            )
            print(rows[-1], flush=True)
        device.close()
    binaries = {f"{KERNEL} {one.label}": row.sha256 for (one, _), row in zip(configurations, built, strict=True)}
    STUDY.write(gpu, {"held_seconds": HELD_SECONDS, "rows": rows}, uuids=[gpu.uuids[0]], binaries=binaries)


if __name__ == "__main__":
    main()
