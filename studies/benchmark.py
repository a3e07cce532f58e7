"""The times and sizes that the pipeline keeps to, each beside what it may be at most; and what more GPUs bring.

    make bench                                           in this checkout, which is set up; times the default campaign if it has not run yet
    .venv/bin/python studies/benchmark.py --clone        first a fresh clone, set up and run by `make`
    .venv/bin/python studies/benchmark.py --gpus FOLDER  the default campaign on all GPUs of this machine and on one, with as many cores,
                                                         in two fresh clones, FOLDER/all and FOLDER/one, one after the other

Exit status 1 if one is above its limit, or if four GPUs or more take longer than a third of the time of one.
"""

import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import answer
import pandas as pd
from answer import binaries, command_line, first_gpu
from checkout import interpreter
from ladder.compiling.compile import compile_kernel
from ladder.core import files
from ladder.core.errors import NOTHING_MEASURED, InputError
from ladder.core.places import HOME
from ladder.devices import detect
from ladder.model import campaign_file, kernel_file

MOST_OF_ONE = 1 / 3
"""The share of one GPU's time that four or more may take."""
LIMITS = {
    "campaign_s": 360,
    "confirm_share": 1 / 3,
    "gauntlet_share": 0.05,
    "clone_set_up_s": 180,
    "clone_to_figures_s": 360,
    "nothing_to_do_s": 5,
    "plan_2000_s": 3,
    "compile_cpu_s_a_configuration": 1.5,
}
"""The upper limits, in seconds; `confirm_share` and `gauntlet_share` are shares of the campaign's
time.
"""
LEAST_BUSY = 0.65
"""The least share of the measure jobs' wall time in which a GPU must be executing."""
MOST_MEMORY_GB = 4.0
"""The most host memory that a measure job may take, in GB."""


def above_limits(measured: Mapping[str, Any]) -> list[str]:
    """Return what exceeds its limit. The share in which the device executes counts for GPUs
    only.
    """
    above = [name for name, most in LIMITS.items() if measured.get(name, 0) > most]
    for device, cost in measured["measure_jobs"].items():
        if device.startswith("nvidia") and cost["busy_share"] < LEAST_BUSY:
            above.append(f"{device}: idle")
        if cost["peak_host_memory_gb"] > MOST_MEMORY_GB:
            above.append(f"{device}: memory")
    return above


def long(measured: Mapping[str, Any]) -> str:
    """Return what the default campaign, a clone and a run with nothing to do take, and how much
    exceeds its limit.
    """
    parts = []
    if "campaign_s" in measured:
        names = {"confirm_share": "the confirmation", "gauntlet_share": "the gauntlet"}
        shares = " and ".join(
            f"{measured[key]:.1%} {name}" for key, name in names.items() if key in measured
        )
        parts.append(
            f"the default campaign takes {measured['campaign_s']:.0f} s with one "
            f"core{shares and f' ({shares})'}"
        )
    if "clone_to_figures_s" in measured:
        parts.append(
            f"from a fresh clone to the figures it takes {measured['clone_to_figures_s']:.0f} s"
        )
    parts.append(f"a run with nothing to do takes {measured['nothing_to_do_s']:.1f} s")
    parts.append(
        f"{measured['campaign_mb']:.0f} MB of results and an environment of "
        f"{measured['environment_mb'] / 1000:.1f} GB"
    )
    for device, cost in measured["measure_jobs"].items():
        parts.append(
            f"`{device}` was busy for {cost['busy_share']:.0%} of {cost['measure_s']:.0f} s of "
            "measuring"
        )
    return f"{'; '.join(parts)}; {len(above_limits(measured)) or 'no'} budget exceeded"


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of a command, which must succeed or have nothing to do."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as store:
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | {"LADDER_STORE": store},  # nothing was compiled before
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode not in (0, NOTHING_MEASURED):
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
    return time.perf_counter() - start


def fresh_clone() -> dict[str, Any]:
    """Set-up and the default campaign in a fresh clone."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(HOME), str(clone)], check=True)
        set_up = seconds(["make", "setup"], clone)
        return {"clone_set_up_s": set_up, "clone_to_figures_s": set_up + seconds(["make"], clone)}


def campaign_here() -> dict[str, Any]:
    """The default campaign, where it has not run yet, and then a run that has nothing to do."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    folder = HOME / "results" / "default"
    results = {} if folder.exists() else {"campaign_s": seconds(command, HOME)}
    return results | {
        "nothing_to_do_s": seconds(command, HOME),
        "campaign_mb": megabytes(folder),
        "environment_mb": megabytes(Path(sys.prefix)),
    }


def megabytes(folder: Path) -> float:
    """What the files in a folder have in them."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def plan_2000() -> float:
    """Check and expand a campaign with a sweep of 2,000 configurations."""
    lists = {"BM": [*range(1, 21)], "BN": [*range(1, 21)], "BK": [1, 2, 3, 4, 5]}
    data = {
        "campaign": "bench",
        "problems": {"cuda": [{"square": 64}]},
        "kernels": ["cuda/03_shared_tile"],
    }
    start = time.perf_counter()
    campaign = campaign_file.load(
        data | {"parameters": {"cuda/03_shared_tile": lists}}, "bench", kernel_file.discover(HOME)
    )
    files.digest(campaign.plan("cuda", campaign.shares["cuda", "float32"]))
    return time.perf_counter() - start


def compile_seconds() -> float:
    """CPU time of one configuration, the mean over those of every CUDA kernel."""
    count = 0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LADDER_STORE"] = folder
        for kernel in kernel_file.discover(HOME).values():
            if kernel.kind == "cuda":
                configurations = list(kernel.expand({}, ["float32"]))
                place = Path(folder) / kernel.name
                rows = compile_kernel(kernel, configurations, "sm_90", place, 1)
                count += sum(row.status == "compiled" for row in rows)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / count


def last_campaign() -> dict[str, Any]:
    """What the measure jobs of the last default campaign cost, by device."""
    costs = {}
    for path in sorted((HOME / "results" / "default").glob("*/costs.csv")):
        rows = pd.read_csv(path)
        wall, busy, gauntlet = (
            float(rows[f"{name}_seconds"].sum()) for name in ("wall", "busy", "gauntlet")
        )
        costs[path.parent.name] = {
            "measure_s": wall,
            "confirm_s": float(rows.set_index("job").at["confirmed", "wall_seconds"]),
            "gauntlet_s": gauntlet,
            "busy_share": busy / wall,
            "peak_host_memory_gb": float(rows["peak_memory_bytes"].max()) / 1e9,
        }
    return costs


def pipeline(clone: bool) -> None:
    """Measure what has a limit."""
    results = fresh_clone() if clone else {}
    results |= {
        **campaign_here(),
        "plan_2000_s": plan_2000(),
        "compile_cpu_s_a_configuration": compile_seconds(),
    }
    jobs = last_campaign()
    if "campaign_s" in results:
        for stage in ("confirm", "gauntlet"):
            results[f"{stage}_share"] = (
                sum(cost[f"{stage}_s"] for cost in jobs.values()) / results["campaign_s"]
            )
    for name, value in results.items():
        print(f"{name:32s} {value:8.2f}   at most {LIMITS.get(name, math.inf):.3g}")
    results |= {"measure_jobs": jobs, "cores": len(os.sched_getaffinity(0))}
    here = first_gpu() if detect.detect_gpus() else detect.detect_cpu()
    took = "It had run before"
    if "campaign_s" in results:
        took = f"{results['campaign_s']:.0f} s with one core of the host"
    answer.write(
        "benchmark",
        "How long does a campaign take, and how much space?",
        took,
        long(results),
        here,
        results,
        uuids=list(here.uuids),
        binaries=binaries(HOME / "results" / "default"),
    )
    if above := above_limits(results):
        sys.exit(f"TOO MUCH: {', '.join(above)}")


def campaign_of(clone: Path, cores: int, gpus: int) -> dict[str, Any]:
    """The default campaign in a fresh clone on so many GPUs."""
    subprocess.run(["git", "clone", "-q", str(HOME), str(clone)], check=True)
    python = interpreter(clone / ".venv", clone / "workflow")
    command = [python, "-m", "snakemake", "--cores", str(cores), "--resources", f"gpu={gpus}"]
    # files are cached for both alike
    subprocess.run([*command, "--dry-run"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    wall = seconds(command, clone)
    (folder,) = (clone / "results" / "default").glob("nvidia-*")
    jobs = float(pd.read_csv(folder / "costs.csv")["wall_seconds"].sum())
    used = sorted(pd.read_csv(folder / "summary.csv")["uuid"].dropna().unique())
    print(f"{gpus} GPU(s): {wall:.1f} s, of which measuring {jobs:.1f} s", flush=True)
    return {"gpus": gpus, "wall_s": wall, "measure_jobs_s": jobs, "uuids": used}


def several_gpus(folder: Path, cores: int) -> None:
    """Run the default campaign on all GPUs and on one."""
    device = next(iter(detect.detect_gpus()), None)
    if device is None:
        raise InputError("no GPU is to be seen; expected some of one model")
    several = campaign_of(folder / "all", cores, len(device.uuids))
    single = campaign_of(folder / "one", cores, 1)
    runs = [several, single]
    measured = {"cores": cores, "cores_of_machine": os.cpu_count(), "runs": runs}
    answer.write(
        "several_gpus",
        "Do several GPUs help?",
        f"{single['wall_s'] / several['wall_s']:.1f} times as fast with several",
        f"the default campaign takes {several['wall_s']:.0f} s on {several['gpus']} GPUs and "
        f"{single['wall_s']:.0f} s "
        f"on one, with {cores} cores each",
        device,
        measured,
        uuids=list(device.uuids),
    )
    sys.exit(int(several["gpus"] >= 4 and several["wall_s"] > MOST_OF_ONE * single["wall_s"]))


def main() -> None:
    """Measure, print and write."""
    parser = command_line(__doc__)
    parser.add_argument("--clone", action="store_true", help="also time a fresh clone")
    parser.add_argument(
        "--gpus", type=Path, metavar="FOLDER", help="compare all GPUs of this machine with one"
    )
    parser.add_argument("--cores", type=int, default=8, help="for --gpus")
    given = parser.parse_args()
    if given.gpus:
        several_gpus(given.gpus, given.cores)
    else:
        pipeline(given.clone)


if __name__ == "__main__":
    main()
