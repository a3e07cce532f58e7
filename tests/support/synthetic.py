"""A made-up dataset, seeded: real kernels with times by a formula, as a campaign leaves them on
disk. No number in it was measured.
"""

import functools
import hashlib
import itertools
import json
import math

import numpy as np
import pandas as pd
from ladder.model.baselines import BASELINES
from ladder.model.problem import Problem
from ladder.storage import published_index, samples
from ladder.storage.columns import names
from rungs import ALL

SHARES = {
    "01_naive_uncoalesced": 0.012,
    "02_naive_coalesced": 0.12,
    "03_shared_tile": 0.16,
    "05_register_tile": 0.5,
    "07_double_buffer": 0.8,
    "08_padded_shared": 0.801,
    "10_block_tile_128": 0.97,
    "16_thin_edge": 1.02,
    "20_tensor_cores": 4.0,
    "cublas": 1.0,
    "cublas_tf32": 5.0,
    "cublaslt_best": 1.03,
}
"""How fast each is on large problems, relative to the reference."""
TF32 = ("20_tensor_cores", "cublas_tf32")
PROBLEMS = [
    *((n, n, n) for n in (256, 512, 1024, 2048, 4096, 8192)),
    (64, 4096, 4096),
    (8192, 128, 8192),
    (256, 256, 16384),
    (2049, 2047, 2051),
]
SMALL = [(256, 256, 256), (4096, 4096, 4096), (64, 4096, 4096)]
GPUS = [f"GPU-{i}1c0ffee-0000" for i in range(3)]
ENVIRONMENT = {
    "device": "nvidia-made-up",
    "kind": "cuda",
    "name": "NVIDIA Made Up",
    "time": "2026-01-01T00:00:00+00:00",
    "fingerprint": {"driver": "1"},
    "project": {"commit": "0" * 40, "dirty": False},
    "attributes": {
        "compute_capability": "9.0",
        "sm_count": 132,
        "power_limit_w": 700.0,
        "max_sm_clock_mhz": 1980,
        "library": "cuBLAS 13.1.0",
        "threads_per_sm": 2048,
        "registers_per_sm": 65536,
        "shared_memory_per_sm_bytes": 233472,
        "shared_memory_per_block_bytes": 232448,
        "clusters_of_4": 30,
    },
    "peaks": {"fp32_tflops": 65.1, "copy_tb_s": 4.25},
    "launch_us": 5.1,
    "repeated_launch_us": 1.4,
}


def _reference_us(problem):
    return 2.5 + problem.flops / (52e6 / (1 + 3e5 / (problem.m * problem.n)))


def _us(kernel, problem, place):
    """The time of a kernel's configuration; the first is the best. Naive kernels lose less on small
    problems; 16_thin_edge is slow there, and the twins 07 and 08 are one program.
    """
    if kernel == "cublas":  # the reference beside itself
        return _reference_us(problem)
    share = SHARES.get(kernel, 1) * (0.7 if kernel == "16_thin_edge" and problem.m < 1000 else 1)
    return 2.0 + _reference_us(problem) / share * (1 + 0.01 * place**2)


def _noise(random, n, wide=False):
    values = random.normal(0, 0.002, n)
    return np.exp(values + (np.where(random.random(n) < 0.3, 0.3, 0) if wide else 0))


def write(
    folder,
    seed=0,
    device="nvidia-made-up",
    problems=PROBLEMS,
    processes=5,
    kernels=tuple(SHARES),
    speed=1.0,
    throttled=8192,
    busy=None,
    slower=None,
    of_run=0.0,
    builds=("",),
    **environment,
):
    """Write environment, resources, samples and confirmation of a dataset into a folder; returns
    it.

    8192 is throttled, 256x256x16384 has two modes, 4096 has the state sustained too, kernels'
    launches of over a millisecond are as warm when cold. Without `processes` the confirmation is
    left out. `slower` has factors of some kernels' times, `of_run` is the standard deviation of
    what is this run's own in every kernel's log time on a problem. `builds` are ways of compiling,
    as labels have them. Another process computed beside the problems whose M is `busy`.
    """
    random, sizes = np.random.default_rng(seed), [Problem(*size) for size in problems]
    own = {
        (name, problem): (slower or {}).get(name, 1) * math.exp(of_run * random.normal())
        for name in kernels
        for problem in sizes
    }

    def us_of(name, problem, place=0):
        return _us(name, problem, place) / speed * own[name, problem]

    def sampled(problem, times, beside, **given):
        bits = 0x4 if problem.m == throttled else 0
        return given | {
            "samples_us": list(times),
            "reference_us": list(beside[: len(times)]),
            "samples_throttle_reasons": [bits] * len(times),
            "throttle_reasons": bits,
            "sm_clock_mhz": 1900.0 if bits else 1980.0,
            "other_processes": float(problem.m == busy),
        }

    (folder / "samples").mkdir(parents=True)
    facts = ENVIRONMENT | {"device": device} | environment
    for uuid in facts["fingerprint"].get("uuids", [])[:1]:
        facts["attributes"] = facts["attributes"] | {"uuid": uuid}
    uuid = facts["attributes"].get("uuid", GPUS[0])
    (folder / "environment.json").write_text(json.dumps(facts))
    configurations = {name: ["-"] for name in kernels}
    for name in set(kernels) - set(BASELINES["cuda"]):
        labels = _labels(_cuda_kernels()[name])
        configurations[name] = [f"{label} {build}".strip() for label in labels for build in builds]
    _write_resources(folder, configurations)
    session = {
        "fingerprint": facts["fingerprint"],
        "code": "made up",
        "wall_seconds": 1.0,
        "busy_seconds": 0.9,
        "children": 1,
        "measured": 1,
        "peak_memory_bytes": 1,
        **facts["project"],
    }
    swept, jobs = {}, {}
    for index, name in enumerate(kernels):
        job = "baselines.float32" if name in BASELINES["cuda"] else f"{name}.float32"
        for problem in sizes:
            beside = _reference_us(problem) / speed * _noise(random, 12)
            for place, label in enumerate(configurations[name]):
                row = _row(name, label, problem, device, GPUS[index % 3], random)
                n, stop = (5, "race") if place > 2 else (12, "target")
                times = us_of(name, problem, place) * _noise(random, n)
                row |= sampled(problem, times, beside, state="warm", stop=stop)
                swept.setdefault(job, []).append(row)
    for job, rows in swept.items():
        path = folder / "samples" / f"{job}.parquet"
        samples.write(path, rows, session | {"job": job})
        jobs[job] = hashlib.sha256(path.read_bytes()).hexdigest()
    if not processes:
        return folder
    places = [
        (name, place, label)
        for name in kernels
        for place, label in enumerate(configurations[name][:2])
    ]
    rows = []
    for process, problem in itertools.product(range(1, processes + 1), sizes):
        for state, factor in (("warm", 1), ("cold", 1.15)):
            level = math.exp(random.normal(0, 0.003))
            beside = _reference_us(problem) / speed * factor * level * _noise(random, 8)
            for name, place, label in places:
                row = _row(name, label, problem, device, uuid, random)
                role = "finalist" if place else "best"
                row |= {"state": state, "process": process, "role": role}
                if state == "warm" and process == 1:
                    row["bits"] = "same: every launch, rows"
                us = us_of(name, problem, place)
                if state == "cold" and us > 1000:
                    reason = "as warm: filling the caches takes 4 us"
                    row |= {"status": "skipped", "reason": reason, "frobenius_error": None}
                else:
                    wide = problem.label == "256x256x16384" and name.startswith("0")
                    times = us * factor * level * math.exp(random.normal(0, 0.002))
                    times = times * _noise(random, 8, wide)
                    row |= sampled(problem, times, beside, stop="max_samples")
                rows.append(row)
        if problem.label == "4096" and process <= 3:
            held = np.random.default_rng([seed, process])
            for name in kernels:
                us = us_of(name, problem) * 1.05
                joules = us * 1e-6 * 600 * math.exp(held.normal(0, 0.02))
                row = _row(name, configurations[name][0], problem, device, uuid, held)
                row |= {"state": "sustained", "process": process, "role": "best"}
                row |= {"energy_j": joules, "power_w": 600.0}
                times = [us * math.exp(held.normal(0, 0.002))]
                beside = [_reference_us(problem) / speed]
                rows.append(row | sampled(problem, times, beside, stop="settled"))
    confirmation = {"job": "confirmed", "jobs": jobs, "within": 0.02}
    samples.write(folder / "confirmed.parquet", rows, session | confirmation)
    return folder


def index(published):
    """Write the index of the published datasets that are there: of each device and campaign the
    first run is featured.
    """
    groups = {}
    for path in sorted(published.glob("*/*/*/environment.json")):
        group, run = path.parent.parent.relative_to(published).as_posix(), path.parent.name
        groups.setdefault(group, {"featured": run, "runs": {}})["runs"][run] = "made up"
    published_index.write(published, groups)


@functools.cache
def _cuda_kernels():
    return {kernel.name: kernel for kernel in ALL.values() if kernel.kind == "cuda"}


def _labels(kernel):
    legal = [
        configuration.label
        for configuration, objection in kernel.expand({}, ["float32"])
        if not objection
    ]
    return [legal[i] for i in sorted({0, len(legal) // 3, len(legal) // 2, len(legal) - 1})]


def _row(name, label, problem, device, uuid, random):
    roundoff = 2**-11 if name in TF32 else 2**-24 * math.sqrt(problem.k) * 0.3
    return {
        "kernel": name,
        "configuration": label,
        "device": device,
        "uuid": uuid,
        "status": "correct",
        "reference": "cublas",
        "repeats": 1,
        "race": True,
        "precision": "tf32" if name in TF32 else None,
        "frobenius_error": roundoff * random.uniform(0.8, 1.2),
        "component_error": 2 * roundoff * random.uniform(0.8, 1.2),
        "component_bound": 20 * roundoff,
        "key": "",
        "time": "2026-01-01",
        **vars(problem),
    }


def _write_resources(folder, configurations):
    rows = []
    for name in configurations:
        if name in BASELINES["cuda"]:
            continue
        for label in configurations[name]:
            is_twin = name[:2] in ("07", "08") and label == configurations[name][0]
            rate = "" if name[0] == "2" else f"{0.3 + 0.04 * int(name[:2])}"
            rows.append(
                {
                    "kernel": name,
                    "slug": label,
                    "element_type": "float32",
                    "configuration": label,
                    "arch": "sm_90",
                    "status": "compiled",
                    "reason": "",
                    "binary": "",
                    "sha256": "twin" if is_twin else f"{name} {label}",
                    "function": "gemm",
                    "registers": "64",
                    "static_shared": "8192",
                    "multiply_adds_per_clock": rate,
                }
            )
    table = pd.DataFrame(rows).reindex(columns=names("resources"), fill_value="0")
    table.to_csv(folder / "resources.csv", index=False)
