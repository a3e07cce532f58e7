"""Whether another harness measures what ours does: cuBLAS and two rungs at three sizes, on a GPU.

    .venv/bin/python studies/agreement.py --other python3

`--other` is an interpreter that has CuPy, PyTorch and Triton, which the lock does not have; it runs `studies/other_harness.py`. Ours times
first and hands over cubins and launch shapes; the other allocates for itself and loads and times the same:

- warm: launches back to back, in a graph here and there;
- cold: the state that is published. Here after a flush, each launch of a graph on another copy of the operands; there a longer graph whose
  launches take turns on copies that together exceed twice the L2;
- cold_long: the same, ours with graphs as long as theirs, in which what a flush leaves in the L2 counts for nothing. For context;
- cold_single: one launch after a flush of the L2, ours with `sample_us: 0`, theirs `triton.testing.do_bench`. Both hold the overhead of a
  launch. For context: it decides nothing.

Both call cuBLAS by the same function, with a workspace of the same size. What PyTorch makes of the same product, `torch.mm`, is timed
for context too, beside our cuBLAS. Each side queues all on one stream: once a process has used two, it pays more between kernels, and
cuBLAS takes two of them at 512, which depend on each other (slices of K, and their sum). The other harness measures what that does: it
times the smallest size once more on a second stream. Operands begin where the allocator of each side has them (`studies/placement.py`
says what that moves).

Exit status 1 where a median of the first two modes differs by more than 2 %, but for `torch.mm`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ladder.claims.answers import STUDIES
from ladder.claims.study import command_line, percent
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core.files import ROOT
from ladder.core.stats import median_interval
from ladder.devices.base import Device, Launch
from ladder.devices.lock import first_gpu
from ladder.measuring import timing, verify
from ladder.measuring.worker import open_device
from ladder.model import kernel_file
from ladder.model.campaign import Limits
from ladder.model.kernel import Configuration
from ladder.model.problem import Problem

WITHIN = 0.02
SIZES = (512, 2048, 8192)
RUNGS = ("cuda/03_shared_tile", "cuda/10_block_tile_128")
MODES = {"warm": ("warm", 500.0), "cold": ("cold", 500.0), "cold_long": ("cold", 20000.0), "cold_single": ("cold", 0.0)}
"""The state and `sample_us` of each mode of ours."""
CONTEXT = "torch.mm"


def ratios(rows: Sequence[Mapping[str, Any]], mode: str) -> list[float]:
    """Our medians to theirs."""
    return [row["ours"][mode] / row["theirs"][mode] for row in rows]


def slower_on_second(measured: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """Name, mode and ratio of the other harness's times once it uses a second stream to those before."""
    before = {(row["size"], row["name"]): row["theirs"] for row in [*measured["rows"], *measured["context"]]}
    return [
        (row["name"], mode, row[mode] / before[row["size"], row["name"]][mode])
        for row in measured["second_stream"]
        for mode in ("warm", "cold")
    ]


STUDY = STUDIES["agreement"]


def ours(device: Device, launch: Launch) -> dict[str, float]:
    """Medians in microseconds of a launch on the operands in use, timed beside itself."""
    medians = {}
    for mode, (state, sample_us) in MODES.items():
        limits = Limits(min_samples=30, max_samples=60, sample_us=sample_us, race=False)
        (series,) = (item[1] for item in timing.measure(device, {0: launch}, launch, state, limits, 0) if item)
        medians[mode] = median_interval(series.samples)[0]
    return medians


def main() -> None:
    """Have both time, print and write."""
    parser = command_line(__doc__)
    parser.add_argument("--other", default="python3", help="an interpreter that has CuPy, PyTorch and Triton")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    given = parser.parse_args()
    gpu, known = first_gpu(), kernel_file.discover(ROOT)
    rows: list[dict[str, Any]] = []
    binaries = {}
    from ladder.devices import cuda_operands
    from ladder.devices import operands as devices

    devices.GUARD, devices.RESULT_SHIFTS, cuda_operands.SHIFTS = 0, 1, 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "support.bin").write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], folder / "support.bin")
        for size in given.sizes:
            problem = Problem(size, size, size)
            operands = device.operands(problem)
            cublas = device.baseline("cublas")
            contestants: dict[str, Any] = {"cublas": (cublas, {"call": "cublasGemmEx"}), CONTEXT: (cublas, {"call": CONTEXT})}
            for name in RUNGS:
                kernel = known[name]
                chosen = Configuration("float32", tuple(kernel.parameters.items()))
                (row,) = compile_kernel(kernel, [(chosen, "")], gpu.arch, folder / kernel.name, 1)
                cubin = folder / kernel.name / row.binary
                (shape,) = kernel.launches(chosen, {**problem.names(), **device.names})
                how = {"cubin": str(cubin), "grid": shape.grid, "block": shape.block, "shared": shape.dynamic_shared}
                contestants[kernel.name] = device.kernel(kernel, chosen, cubin.read_bytes()), how
                binaries[f"{kernel.name} {chosen.label}"] = row.sha256
            for name, (launch, how) in contestants.items():
                verdict = verify.judge(device.check(launch), problem)
                if verdict.status != "correct":
                    sys.exit(f"{name} at {size} is {verdict.status}: {verdict.reason}")
                rows.append({"size": size, "name": name, "how": how, "ours": ours(device, launch)})
            device.free(operands)
        library = getattr(device, "blas").version()  # noqa: B009 - of the CUDA device only
        device.close()
        (folder / "rows.json").write_text(json.dumps(rows))
        other = [given.other, str(ROOT / "studies" / "other_harness.py"), str(folder / "rows.json")]
        subprocess.run(other, check=True)
        theirs = json.loads((folder / "theirs.json").read_text())
    for one, times in zip(rows, theirs["rows"], strict=True):
        one["how"].pop("cubin", None)
        one["theirs"] = times
        for mode in MODES:
            mine, his = one["ours"][mode], times[mode]
            print(f"{one['size']:5} {one['name']:20} {mode:12} ours {mine:10.3f} us, theirs {his:10.3f}: {percent(mine / his)}")
    context = [row for row in rows if row["name"] == CONTEXT]
    rows = [row for row in rows if row["name"] != CONTEXT]
    measured = {"within": WITHIN, "rows": rows, "context": context, "second_stream": theirs["second_stream"]}
    software = {"our cublas": library, **theirs["software"]}
    STUDY.write(gpu, measured, uuids=[gpu.uuids[0]], binaries=binaries, software=software)
    sys.exit(int(any(abs(ratio - 1) > WITHIN for mode in ("warm", "cold") for ratio in ratios(rows, mode))))


if __name__ == "__main__":
    main()
