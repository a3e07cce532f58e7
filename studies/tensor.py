"""How fast float32 results from tensor cores are, beside SGEMM and each by itself, and on operands that no tensor core may multiply.

    .venv/bin/python studies/tensor.py [DATASET]      on a GPU of compute capability 9.0; about a minute

Tensor cores draw so much power that what is timed in the same rounds is timed at a lower clock. So rung 21, in its best configuration by a
published dataset, and cuBLAS are timed in the same rounds; each beside itself alone; and each launched again and again for some seconds, with
the energy that the board counts. Then once more in the same rounds on operands of which every chunk is left to float32. Measured are times
of a launch in microseconds, and joules.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ladder import timing
from ladder.aggregate import of_folder
from ladder.campaign import Limits, Problem
from ladder.compile import compile_kernel, compile_support
from ladder.devices import Device, Launch
from ladder.environment import ROOT
from ladder.kernels import Configuration, discover
from ladder.lock import first_gpu
from ladder.statistics import median_interval
from ladder.study import PUBLISHED, Study
from ladder.units import tflops
from ladder.verify import judge
from ladder.worker import open_device

KERNEL = "21_tensor_split"
DATASET = "nvidia-h200"
SIZES = (512, 1024, 2048, 4096, 8192)
HELD_SECONDS = 3.0
UNFIT = "lognormal"
"""The distribution of which no chunk fits."""
LIMITS = Limits(min_samples=20, max_samples=20, target=1e-6, race=False)


def found(measured: Mapping[str, Any]) -> str:
    """The ratios, what is held at the largest size, and the least where no chunk fits."""
    rows = measured["rows"]
    ratios = ", ".join(
        f"{row['size']} ×{row['together']['sgemm_us'] / row['together']['rung_us']:.2f} / "
        f"×{row['alone']['sgemm_us'] / row['alone']['rung_us']:.2f}"
        for row in rows
    )
    size, held = rows[-1]["size"], rows[-1]["held"]
    kept = [
        f"{tflops(size, size, size, held[f'{who}_us']):.3g} TFLOP/s and {held[f'{who}_j']:.3g} J" for who in ("rung", "sgemm")
    ]
    unfit = min(row["unfit"]["sgemm_us"] / row["unfit"]["rung_us"] for row in rows)
    return (
        f"beside SGEMM, in the same rounds / each by itself: {ratios}; held for {measured['held_seconds']:g} s at {size}: {kept[0]} a GEMM, "
        f"SGEMM {kept[1]}; where no chunk fits at least ×{unfit:.2f}"
    )


STUDY = Study("tensor", "How fast are float32 results from tensor cores, really?", found, ".venv/bin/python studies/tensor.py")


def timed(device: Device, launch: Launch, reference: Launch) -> list[float]:
    """Medians of a launch and of the reference, in the same rounds. Exits where a result is wrong."""
    ((_, series),) = (item for item in timing.measure(device, {0: launch}, reference, "warm", LIMITS, 0) if item)
    if series.fault:
        sys.exit(series.fault)
    return [median_interval(samples)[0] for samples in (series.samples, series.reference)]


def main(dataset: str) -> None:
    """Measure, print and write."""
    gpu, kernel = first_gpu(), discover(ROOT)[f"cuda/{KERNEL}"]
    best = of_folder(ROOT / PUBLISHED / dataset, [kernel])[0]["best"]
    best = best[(best["kernel"] == KERNEL) & (best["state"] == "warm")].set_index("problem")["configuration"]
    names, rows, binaries = ("rung_us", "sgemm_us"), [], {}
    with tempfile.TemporaryDirectory() as scratch:
        support = Path(scratch) / "support.bin"
        support.write_bytes(compile_support("cuda", gpu.arch))
        device = open_device("cuda", gpu.uuids[0], support)
        for size in SIZES:
            chosen = Configuration.of("float32", best[str(size)])
            (built,) = compile_kernel(kernel, [(chosen, "")], gpu.arch, Path(scratch) / "build", 1)
            binary = (Path(scratch) / "build" / built.binary).read_bytes()
            binaries[f"{KERNEL} {chosen.label}"] = built.sha256
            row: dict[str, Any] = {"size": size, "configuration": chosen.label}
            for problem in (Problem(size, size, size), Problem(size, size, size, distribution=UNFIT)):
                operands = device.operands(problem)
                rung, sgemm = device.kernel(kernel, chosen, binary), device.baseline("cublas")
                for launch in (rung, sgemm):
                    verdict = judge(device.check(launch), problem)
                    if verdict.status != "correct":
                        sys.exit(f"{problem.label}: {verdict.status}: {verdict.reason}")
                together = dict(zip(names, timed(device, rung, sgemm), strict=True))
                if problem.distribution == UNFIT:
                    row["unfit"] = together
                else:
                    row["together"] = together
                    row["alone"] = {name: timed(device, one, one)[0] for name, one in zip(names, (rung, sgemm), strict=True)}
                    row["held"] = {}
                    for who, launch in (("rung", rung), ("sgemm", sgemm)):
                        repeats = max(1, round(LIMITS.sample_us / row["alone"][f"{who}_us"]))
                        counted = device.energy(device.sample(launch, repeats), HELD_SECONDS)
                        if counted is None:
                            sys.exit(f"{gpu.name}: its energy cannot be read")
                        row["held"] |= {f"{who}_j": counted[0] / repeats, f"{who}_us": counted[1] / repeats}
                device.free(operands)
            rows.append(row)
            print(row, flush=True)
        device.close()
    STUDY.write(gpu, {"held_seconds": HELD_SECONDS, "rows": rows}, uuids=[gpu.uuids[0]], binaries=binaries)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [DATASET]))
