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


# Whether jobs are submitted to other machines. Snakemake does not say so before it has read this file, but it has by then made sure of
# the number of jobs and of default resources, which only what submits needs.
SUBMITTING = (
    workflow.nodes is not None
    and workflow.resource_settings.default_resources is not None
)


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
    if SUBMITTING and not CAMPAIGN.partitions:
        raise InputError(
            f"{source}: partitions: missing, and this machine's devices are not those that submitted jobs run on; expected the "
            "cluster's, such as {a100: {device: nvidia-a100-sxm4-80gb, architecture: sm_80, resources: {slurm_partition: a100}}}; "
            "config/README.md explains them"
        )
    ARCHITECTURES = environment.architectures(CAMPAIGN, DEVICES, GPUS)
    FINGERPRINTS = {device.slug: environment.fingerprint(device) for device in DEVICES}
except InputError as error:
    sys.exit(f"Error: {error}")
config.update(data)

BY_SLUG = {device.slug: device for device in DEVICES}
# On this machine one GPU at a time, if `--resources gpu=N` does not say how many; a cluster knows how many it has.
if (
    workflow.is_main_process
    and not SUBMITTING
    and "gpu" not in workflow.global_resources
):
    workflow.register_resource("gpu", 1)
MEASURING = sources.digest("measure", "worker")
# what a measure job needs: its largest problem, and the libraries
MEASURING_MB = 3000 + max(
    problem.bytes // 10**6
    for kind in CAMPAIGN.problem_sizes
    for element_type in CAMPAIGN.element_types
    for problem in CAMPAIGN.problems(kind, element_type)
)


wildcard_constraints:
    device="[a-z0-9-]+",
    dataset="[a-z0-9_-]+",
    arch="[a-z0-9_-]+",
    kernel="[A-Za-z0-9_]+",
    kind="cuda|cpu",
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


def partition_of(wildcards):
    """The partition that a job runs in, if it has to: that of its dataset, or for code for a CPU, which is compiled on it, one that has it."""
    if hasattr(wildcards, "device"):
        return CAMPAIGN.partitions.get(wildcards.device)
    with_it = [p for p in CAMPAIGN.partitions.values() if p.device == wildcards.arch]
    return with_it[0] if with_it else None


def requests(gpu, **usual):
    """What a cluster is asked for: the usual, or what the job's partition says, memory and minutes growing with every attempt.

    `gpu` says whether the job runs on the device; what it does not need is not asked for.
    """

    def request(name):
        def value(wildcards, threads, attempt):
            partition = partition_of(wildcards)
            said = dict(partition.resources) if partition else {}
            if gpu and not any(map(about_gpus, said)):
                said["gpu"] = int(BY_SLUG[wildcards.device].kind == "cuda")
            found = said.get(name, usual.get(name))
            found = found(threads) if callable(found) else found
            return attempt * found if name in ("mem_mb", "runtime") else found

        return value

    said = {name for p in CAMPAIGN.partitions.values() for name in p.resources}
    names = {"gpu", *usual, *said} if gpu else {*usual, *said}
    return {name: request(name) for name in names if gpu or not about_gpus(name)}


def about_gpus(resource):
    """Whether a resource is a request for GPUs, in the words of one engine or another."""
    return "gpu" in resource or resource == "gres"


def figures(dataset, devices):
    """The tables and figures of a dataset."""
    return [f"results/{dataset}/{device}/figures" for device in devices]


def of_kind(kind, *names):
    """Files of the campaign's datasets whose devices are of a kind."""
    return [
        f"results/{CAMPAIGN.name}/{device.slug}/{name}"
        for device in DEVICES
        if device.kind == kind
        for name in names
    ]


def compared():
    """A figure for every kind that the campaign has several devices of."""
    return [
        f"results/{CAMPAIGN.name}/compared-{kind}.svg"
        for kind in ("cuda", "cpu")
        if len(of_kind(kind, "best.csv")) > 1
    ]


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
    return max(1, math.ceil((workflow.cores or 1) * mine / total))


def measuring_threads(wildcards):
    """All cores of a CPU, so that nothing runs beside the measurement. One for a GPU, which compiling on all cores does not disturb
    (tests/disturbance.py). A cluster's profile says how many instead."""
    return 1 if BY_SLUG[wildcards.device].kind == "cuda" else workflow.cores or 1


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
    published = "cpu" if wildcards.device.startswith("cpu-") else "cuda"
    kind = published if wildcards.dataset == REDRAWN else BY_SLUG[wildcards.device].kind
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


# What a cluster says when it refuses a job, and the resources that ask for it.
REFUSALS = {
    "invalid partition": "slurm_partition",
    "Invalid generic resource": "gres, gpu or gpu_model",
    "Requested node configuration is not available": "gres, gpu, gpu_model, constraint, mem_mb or slurm_extra, or of --set-threads",
    "Invalid feature specification": "constraint",
    "Invalid account": "slurm_account",
    "Requested time limit is invalid": "runtime",
}


def explain_refusals(logs):
    """Say what to change where Slurm took a job for impossible."""
    said = "".join(Path(log).read_text() for log in logs)
    for words, names in REFUSALS.items():
        if words in said:
            print(
                f"Error: Slurm refused a job ({words}): no node of the cluster has what it asks for. Change {names}: in "
                f"{source} under `partitions`, or in the profile. `sinfo -o '%P %D %c %m %G %f %l'` lists each partition's "
                "nodes, cores, memory (MB), GPUs, features and time limit",
                file=sys.stderr,
            )
