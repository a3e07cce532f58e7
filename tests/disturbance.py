"""Whether compiling disturbs a measurement on a GPU: medians of cuBLAS and two rungs with nvcc at work on every core, and without.

    python tests/disturbance.py [PAIRS]      about 20 s a pair

Stretches of measuring alternate, quiet and busy, with the same contestants in the same rounds. Writes results/disturbance.json: the ratio of
the medians, busy to quiet, of every pair of stretches and its median; and the wall time that a stretch took, which is the harness's.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

from ladder import environment, kernels, timing  # noqa: E402
from ladder.campaign import Limits, Problem  # noqa: E402
from ladder.compile import compile_kernel, compile_support  # noqa: E402
from ladder.devices import Device, Launch  # noqa: E402
from ladder.kernels import Configuration  # noqa: E402
from ladder.statistics import median_interval  # noqa: E402
from ladder.verify import judge  # noqa: E402
from ladder.worker import open_device  # noqa: E402

SIZES = (256, 1024, 4096)
RUNGS = ("cuda/03_shared_tile", "cuda/10_block_tile_128")
LIMITS = Limits(min_samples=30, max_samples=30, target=1e-6, race=False)
SETTLE_SECONDS = 3.0
"""Until every core compiles."""


def compile_for_ever(arch: str) -> None:
    """What the pipeline's compile jobs do, with all cores."""
    kernel = kernels.discover(ROOT)["cuda/10_block_tile_128"]
    while True:
        with tempfile.TemporaryDirectory() as folder:
            compile_kernel(kernel, list(kernel.expand({}, ["float32"])), arch, Path(folder), os.cpu_count() or 1)


def stretch(device: Device, launches: dict[int, Launch], reference: Launch) -> tuple[list[float], float]:
    """Medians of the contestants in microseconds, and the wall time in seconds."""
    start = time.monotonic()
    found = dict(item for item in timing.measure(device, launches, reference, "warm", LIMITS, 0) if item)
    return [median_interval(found[index].samples)[0] for index in launches], time.monotonic() - start


def main(pairs: int) -> None:
    """Measure, and write what was found."""
    gpu, known, rows = environment.detect_gpus()[0], kernels.discover(ROOT), []
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        for size in SIZES:
            problem = Problem(size, size, size)
            device.problem(problem)
            reference = device.baseline("cublas")
            launches = {0: reference}
            for name in RUNGS:
                chosen = Configuration("float32", tuple(known[name].parameters.items()))
                (row,) = compile_kernel(known[name], [(chosen, "")], gpu.arch, Path(scratch) / known[name].name, 1)
                binary = (Path(scratch) / known[name].name / row.binary).read_bytes()
                launches[len(launches)] = device.kernel(known[name], chosen, binary)
            for launch in launches.values():  # behind time_round's gate no code can be loaded
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
            walls: dict[str, Any] = {what: [wall for _, wall in found] for what, found in (("quiet", quiet), ("busy", busy))}
            rows.append({"size": size, "wall_seconds": walls})
        device.close()
    path = ROOT / "results" / "disturbance.json"
    path.parent.mkdir(exist_ok=True)
    given = {"device": gpu.name, "cores": os.cpu_count(), "pairs": pairs, **environment.project_state(), "rows": rows}
    path.write_text(json.dumps(given, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        compile_for_ever(sys.argv[2])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 6)
