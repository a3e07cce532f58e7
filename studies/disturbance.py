"""Whether compiling disturbs a measurement on a GPU: medians of cuBLAS and two rungs with nvcc at work on every core, and without.

    .venv/bin/python studies/disturbance.py [PAIRS]      about 20 s a pair

Stretches of measuring alternate, quiet and busy, with the same contestants in the same rounds. Measured are the ratio of the medians, busy
to quiet, of every pair of stretches, and its median; and the wall time in seconds that a stretch took, which is the harness's.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
from ladder.model import kernel_file
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem

SIZES = (256, 1024, 4096)
RUNGS = ("cuda/03_shared_tile", "cuda/10_block_tile_128")
LIMITS = Limits(min_samples=30, max_samples=30, target=1e-6, race=False)
SETTLE_SECONDS = 3.0
"""Until every core compiles."""


STUDY = STUDIES["disturbance"]


def compile_for_ever(arch: str) -> None:
    """What the pipeline's compile jobs do, with all cores."""
    kernel = kernel_file.discover(ROOT)["cuda/10_block_tile_128"]
    while True:
        with tempfile.TemporaryDirectory() as folder:
            compile_kernel(kernel, list(kernel.expand({}, ["float32"])), arch, Path(folder), os.cpu_count() or 1)


def stretch(device: Device, launches: dict[int, Launch], reference: Launch, limits: Limits = LIMITS) -> tuple[list[float], float]:
    """Medians of the contestants in microseconds, and the wall time in seconds."""
    start = time.monotonic()
    found = dict(item for item in timing.measure(device, launches, reference, "warm", limits, 0) if item)
    return [median_interval(found[index].samples)[0] for index in launches], time.monotonic() - start


def main() -> None:
    """Measure, and write what was found."""
    parser = command_line(__doc__)
    parser.add_argument("pairs", type=int, nargs="?", default=6)
    pairs = parser.parse_args().pairs
    gpu, known = first_gpu(), kernel_file.discover(ROOT)
    rows: list[dict[str, Any]] = []
    walls: list[dict[str, Any]] = []
    binaries = {}
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        for size in SIZES:
            problem = Problem(size, size, size)
            operands = device.operands(problem)
            reference = device.baseline("cublas")
            launches = {0: reference}
            for name in RUNGS:
                chosen = Configuration("float32", tuple(known[name].parameters.items()))
                (row,) = compile_kernel(known[name], [(chosen, "")], gpu.arch, Path(scratch) / known[name].name, 1)
                binary = (Path(scratch) / known[name].name / row.binary).read_bytes()
                launches[len(launches)] = device.kernel(known[name], chosen, binary)
                binaries[f"{name} {chosen.label}"] = row.sha256
            for launch in launches.values():
                verdict = judge(device.check(launch), problem)
                if verdict.status != "correct":
                    sys.exit(f"{size}: {verdict.reason}")
            quiet, busy = [], []
            for _ in range(pairs):
                quiet.append(stretch(device, launches, reference))
                load = subprocess.Popen([sys.executable, __file__, "--compile", gpu.arch], start_new_session=True)
                time.sleep(SETTLE_SECONDS)
                try:
                    busy.append(stretch(device, launches, reference))
                finally:
                    os.killpg(load.pid, signal.SIGKILL)
                    load.wait()
            for index, name in enumerate(("cublas", *RUNGS)):
                ratios = [b[0][index] / q[0][index] for q, b in zip(quiet, busy, strict=True)]
                median, low, high = median_interval(ratios)
                rows.append({"size": size, "name": name, "busy_to_quiet": median, "low": low, "high": high, "ratios": ratios})
                print(f"{size} {name}: busy/quiet {median:.4f} [{low:.4f}, {high:.4f}]", flush=True)
            walls.append({"size": size, **{what: [w for _, w in found] for what, found in (("quiet", quiet), ("busy", busy))}})
            device.free(operands)
        device.close()
    measured = {"cores": len(os.sched_getaffinity(0)), "pairs": pairs, "rows": rows, "wall_seconds": walls}
    STUDY.write(gpu, measured, uuids=[gpu.uuids[0]], binaries=binaries)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        compile_for_ever(sys.argv[2])
    else:
        main()
