# The campaign, checked whole before any job starts, and what the other rules share.
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from ladder.core import files
from ladder.model import campaign_file
from ladder.storage import dataset_layout
from ladder.compiling import provenance, toolchain
from ladder.devices import detect
from ladder.pipeline import code_digest, messages, targets
from ladder.model.kernel_file import discover, strays
from ladder.core.errors import InputError

ROOT = files.ROOT
# Snakemake adds this folder's to where it looks for packages; a job's script finds what is installed.
INSTALLED = subprocess.run(
    [sys.executable, "-c", "import ladder; print(ladder.__path__[0])"],
    capture_output=True,
    text=True,
).stdout.strip()
if not INSTALLED or not ROOT.samefile(Path(INSTALLED).parents[1]):
    sys.exit(
        f"Error: {sys.executable}: runs the package of {Path(INSTALLED).parents[1] if INSTALLED else 'no checkout'}; "
        f"expected that of {ROOT}, which `make setup` there installs"
    )
# Snakemake starts jobs by this name, unquoted, from the folder that it runs in: a space in the path of the project is none in it.
SPECIAL = set(" \t\n'\"\\$`&|;<>()*?[]{}#~")
if SPECIAL & set(sys.executable):
    sys.executable = os.path.relpath(sys.executable)
if SPECIAL & set(sys.executable):
    sys.exit(
        f"Error: {sys.executable}: has a space, a quote or the like in its path from here, which is lost where Snakemake starts jobs by it; "
        "expected it to be run in the project's own folder"
    )

# Snakemake would say by a traceback that it cannot write there.
if workflow.is_main_process:
    try:
        Path(".snakemake").mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=".snakemake").close()
    except OSError as error:
        sys.exit(
            f"Error: {Path.cwd()}: cannot be written: {error.strerror}; expected a folder for results: run from another one, by "
            f"{sys.executable} -m snakemake -s {workflow.main_snakefile} --cores 1"
        )

# Whether jobs are submitted to other machines. Snakemake does not say so before it has read this file, but it has by then made sure of
# the number of jobs and of default resources, which only what submits needs.
SUBMITTING = (
    workflow.nodes is not None
    and workflow.resource_settings.default_resources is not None
)

# `snakemake reproduce` is about a campaign of its own, unless another is named. Snakemake tells its targets only after it has read this.
if "reproduce" in sys.argv and not workflow.overwrite_configfiles:
    config.setdefault("campaign", "reproduce")
# `snakemake published` asks for no kernel of the campaign: one that cannot be used is a warning. What runs its jobs is not told its name.
ONLY_PUBLISHED = "published" in sys.argv and "all" not in sys.argv

try:
    data, source = campaign_file.read(
        ROOT / "config", list(map(Path, workflow.overwrite_configfiles)), config
    )
    refused = {}
    KERNELS = discover(ROOT, refused)
    CAMPAIGN = campaign_file.load(
        data,
        source,
        KERNELS,
        refused if workflow.is_main_process and not ONLY_PUBLISHED else {},
    )
    GPUS = detect.detect_gpus()
    DEVICES = detect.resolve(CAMPAIGN, GPUS, detect.detect_cpu())
    if SUBMITTING and not CAMPAIGN.partitions:
        raise InputError(
            f"{source}: partitions: missing, and this machine's devices are not those that submitted jobs run on; expected the "
            "cluster's, such as {a100: {device: nvidia-a100-sxm4-80gb, architecture: sm_80, resources: {slurm_partition: a100}}}; "
            "config/README.md explains them"
        )
    ARCHITECTURES = toolchain.architectures(CAMPAIGN, DEVICES, GPUS)
    FINGERPRINTS = {device.slug: provenance.fingerprint(device) for device in DEVICES}
    dataset_layout.together(ROOT / "results" / "published")
except InputError as error:
    sys.exit(f"Error: {error}")
config.update(data)

TARGETS = targets.Targets(
    campaign=CAMPAIGN,
    devices=DEVICES,
    architectures=ARCHITECTURES,
    kernels=KERNELS,
    published=ROOT / "results" / "published",
)
if workflow.is_main_process:
    unusable = map(str, refused.values()) if ONLY_PUBLISHED else []
    for said in [*strays(ROOT), *unusable]:
        print(f"Warning: {said}", file=sys.stderr)
MEASURING_MB = TARGETS.measuring_mb()

# What `snakemake counters` lacks is told before the campaign that it counts is measured; what runs submitted jobs may have other programs.
if "counters" in sys.argv:
    if not TARGETS.measured("counters.svg", kind="cuda"):
        sys.exit(
            f"Error: {source}: devices: got {', '.join(device.slug for device in DEVICES)}; expected an NVIDIA GPU among them: "
            "Nsight Compute, of which `counters` is made, counts on no other device"
        )
    if not SUBMITTING and not shutil.which("ncu"):
        sys.exit(
            "Error: PATH: has no ncu; expected that of Nsight Compute, by which `counters` is made"
        )

# On this machine one GPU at a time, if `--resources gpu=N` does not say how many; a cluster knows how many it has.
if (
    workflow.is_main_process
    and not SUBMITTING
    and "gpu" not in workflow.global_resources
):
    workflow.register_resource("gpu", 1)
# With --sdm apptainer: the image's package is the project that lies there, which is this one for the jobs.
BIND = f" --bind {shlex.quote(str(ROOT))}:/opt/gemm-ladder"
if BIND not in workflow.deployment_settings.apptainer_args:
    workflow.deployment_settings.apptainer_args += BIND


wildcard_constraints:
    # with a slash a published dataset's repeat
    device="[a-z0-9-]+(/[a-z0-9-]+)?",
    dataset="[a-z0-9_-]+",
    arch="[a-z0-9_-]+",
    kernel="[A-Za-z0-9_]+",
    kind="cuda|cpu",
    job=r"[A-Za-z0-9_]+\.float[0-9]+(\.[0-9]+of[0-9]+)?",


def of(function):
    """A function of Snakemake's wildcards from one of a dataset and a device."""
    return lambda wildcards: function(wildcards.dataset, wildcards.device)


def kernel_of(wildcards):
    """The kernel that a compile job's wildcards name."""
    return TARGETS.kernel(wildcards.arch, wildcards.kernel)
