# The campaign, checked whole before any job starts, and what the other rules share.
import csv
import math
import os
import shutil
import sys

ROOT = Path(workflow.basedir)
# for this file and, through the environment, for the scripts of the jobs
sys.path.insert(0, str(ROOT / "workflow"))
inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
os.environ.update(
    PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT / "workflow"), *inherited]))
)

from ladder import campaign as campaigns
from ladder import environment, sources
from ladder.kernels import discover
from ladder.units import InputError

REDRAWN = "redrawn"
PUBLISHED = ROOT / "results" / "published"


def read_campaign():
    """The campaign that --configfile or --config campaign=NAME chose, else config/config.yaml."""
    files = workflow.overwrite_configfiles
    if files:
        for file in files:  # Snakemake has read them; our loader refuses more
            campaigns.yamlfile.load(campaigns.yamlfile.read(Path(file)), str(file))
        return dict(config), ", ".join(os.path.relpath(file) for file in files)
    path = campaigns.find(ROOT / "config", config.get("campaign", "default"))
    data = campaigns.yamlfile.load(path.read_text(), str(path))
    return {**data, **config}, str(path.relative_to(ROOT))


try:
    data, source = read_campaign()
    KERNELS = discover(ROOT)
    CAMPAIGN = campaigns.load(data, source, KERNELS)
    GPUS = environment.detect_gpus()
    DEVICES = environment.resolve(CAMPAIGN, GPUS, environment.detect_cpu())
    ARCHITECTURES = environment.architectures(CAMPAIGN, DEVICES, GPUS)
    FINGERPRINTS = {device.slug: environment.fingerprint(device) for device in DEVICES}
except InputError as error:
    sys.exit(f"Error: {error}")
config.update(data)

BY_SLUG = {device.slug: device for device in DEVICES}
# how many GPUs at once, of `--resources gpu=N`
asked = workflow.global_resources.get("gpu")
GPUS_AT_ONCE = (asked and asked.value) or 1
MEASURING = sources.digest("measure", "worker")


wildcard_constraints:
    device="[a-z0-9-]+",
    dataset="[a-z0-9_-]+",
    arch="[a-z0-9_-]+",
    kernel="[A-Za-z0-9_]+",
    job=r"[A-Za-z0-9_]+\.float[0-9]+(\.[0-9]+of[0-9]+)?",


def published_devices():
    """Devices that have a committed dataset."""
    return sorted(path.parent.name for path in PUBLISHED.glob("*/environment.json"))


def counted_devices():
    """Those of them that have hardware counters."""
    return [
        device
        for device in published_devices()
        if (PUBLISHED / device / "counters.csv").exists()
    ]


def compiled():
    """The resources of every chosen kernel on every architecture it is compiled for."""
    chosen = [(arch, "cuda") for arch in ARCHITECTURES] + [
        (device.arch, "cpu") for device in DEVICES if device.kind == "cpu"
    ]
    return [
        f"results/{CAMPAIGN.name}/build/{arch}/{kernel.name}/resources.csv"
        for arch, kind in chosen
        for kernel in CAMPAIGN.kernels.values()
        if kernel.kind == kind
    ]


def figures(dataset, devices):
    """The tables and figures of a dataset."""
    return [f"results/{dataset}/{device}/figures" for device in devices]


def kernel_of(wildcards):
    """The kernel that a compile job's wildcards name."""
    kind = "cuda" if wildcards.arch.startswith("sm_") else "cpu"
    return CAMPAIGN.kernels[f"{kind}/{wildcards.kernel}"]


def binaries(wildcards):
    """The resources of the kernel that a measure job is about; none for the baselines."""
    kernel = wildcards.job.split(".")[0]
    arch = BY_SLUG[wildcards.device].arch
    if kernel == campaigns.BASELINE_JOB:
        return []
    return f"results/{wildcards.dataset}/build/{arch}/{kernel}/resources.csv"


def compiling_threads(wildcards):
    """A kernel's share of all cores, by its share of all configurations to compile: then all jobs end at about the same time."""
    counts = {
        id: len(configurations)
        for id, configurations in CAMPAIGN.configurations.items()
    }
    mine = counts[kernel_of(wildcards).id]
    total = sum(
        count * (len(ARCHITECTURES) if id.startswith("cuda/") else 1)
        for id, count in counts.items()
    )
    return max(1, math.ceil(workflow.cores * mine / total))


def measuring_threads(wildcards):
    """All cores, or as many measure jobs' share of them as there are GPUs to measure on at once."""
    at_once = GPUS_AT_ONCE if BY_SLUG[wildcards.device].kind == "cuda" else 1
    return max(1, workflow.cores // at_once)


def samples(wildcards):
    """The raw samples of a dataset; those of "redrawn" are the committed ones."""
    if wildcards.dataset == REDRAWN:
        return sorted((PUBLISHED / wildcards.device / "samples").glob("*.parquet"))
    return [
        f"results/{wildcards.dataset}/{wildcards.device}/samples/{job}.parquet"
        for job in CAMPAIGN.jobs(BY_SLUG[wildcards.device].kind)
    ]


def measured_kernels(wildcards):
    """The names of the kernels of a dataset."""
    names = {Path(path).name.split(".")[0] for path in samples(wildcards)}
    return sorted(names - {campaigns.BASELINE_JOB})


def dataset_kernels(wildcards):
    """The files of a dataset's kernels, those that are still there: the models are in their headers."""
    kind = "cpu" if wildcards.device.startswith("cpu-") else "cuda"
    ids = [f"{kind}/{name}" for name in measured_kernels(wildcards)]
    return [KERNELS[id].path for id in ids if id in KERNELS]


def dataset_resources(wildcards):
    """What the compiler said of every configuration."""
    if wildcards.dataset == REDRAWN:
        return [PUBLISHED / wildcards.device / "resources.csv"]
    arch = BY_SLUG[wildcards.device].arch
    return [
        f"results/{wildcards.dataset}/build/{arch}/{name}/resources.csv"
        for name in measured_kernels(wildcards)
    ]


def dataset_environment(wildcards):
    """Where and by what a dataset was measured."""
    if wildcards.dataset == REDRAWN:
        return PUBLISHED / wildcards.device / "environment.json"
    return f"results/{wildcards.dataset}/{wildcards.device}/environment.json"


def dataset_counters(wildcards):
    """The hardware counters of a dataset."""
    folder = (
        PUBLISHED
        if wildcards.dataset == REDRAWN
        else Path("results") / wildcards.dataset
    )
    return folder / wildcards.device / "counters.csv"


def counted(dataset, devices):
    """The figures of models and counters of a dataset."""
    return [f"results/{dataset}/{device}/counters.svg" for device in devices]


def print_costs():
    """The share of the measure jobs' wall time in which the device was executing."""
    for device in DEVICES:
        path = Path(f"results/{CAMPAIGN.name}/{device.slug}/costs.csv")
        if not path.exists():
            continue
        with path.open() as file:
            rows = list(csv.DictReader(file))
        wall, busy = (
            sum(float(row[name]) for row in rows)
            for name in ("wall_seconds", "busy_seconds")
        )
        print(
            f"{device.slug}: {busy:.1f} s of the measure jobs' {wall:.1f} s executing ({busy / wall:.0%}); "
            f"tables and figures in {path.parent}"
        )
