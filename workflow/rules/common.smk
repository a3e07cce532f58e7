# What the other rules share. A campaign is loaded, and checked whole, when the first job that belongs to it is planned.
import os
import shlex
import shutil
import sys
from contextlib import suppress
from functools import cache

try:
    import ladder
except ModuleNotFoundError:
    sys.exit(
        f"Error: {sys.executable}: gemm-ladder is not installed; pip install it there"
    )

from ladder.compiling import provenance, toolchain
from ladder.core import places
from ladder.core.errors import InputError, clear_errors
from ladder.core.types import ELEMENT_TYPES
from ladder.devices import detect
from ladder.model.kernel_file import strays
from ladder.pipeline import code_digest, datasets, engine, messages, start
from ladder.pipeline.campaigns import Campaigns
from ladder.storage import dataset_layout, published_index

RUN = engine.Run()
SNAKEFILE = places.HOME / "workflow" / "Snakefile"

in_module = workflow.modifier.namespace is not None  # of another workflow
if not in_module:
    engine.without_pandas()

# The profile's logger has imported the package before the rules were read: of another checkout, perhaps.
CHECKOUTS = [Path(workflow.basedir), Path(workflow.basedir).parent]
OURS = [folder for folder in CHECKOUTS if (folder / "workflow" / "ladder").exists()]

with (
    clear_errors(),
    start.installation_checked(sys.executable, *OURS[:1] or [places.HOME]),
):
    start.check_version("0.1.0")  # as in pyproject.toml
    # Snakemake runs scripts by this very variable, without quotes, and has no setting for it.
    sys.executable = start.unquoted(sys.executable)
    if workflow.is_main_process:
        start.interrupt_once()
        start.check_writable(
            Path.cwd(),
            f"{sys.executable} -m snakemake -s {shlex.quote(str(SNAKEFILE))} --cores 1",
        )
    CAMPAIGNS = Campaigns(
        None if in_module else list(map(Path, workflow.overwrite_configfiles)),
        dict(config),
        toolchain.architectures,
        submits=lambda: engine.submits(workflow),
        is_main=workflow.is_main_process,
        located=workflow.modifier.modify_path,
    )
    CAMPAIGN, REPRODUCED = CAMPAIGNS.name, CAMPAIGNS.reproduce_name
    PUBLISHED = places.HOME / dataset_layout.PUBLISHED
    FEATURED = published_index.featured(PUBLISHED)
    REDRAWN = datasets.published(PUBLISHED, FEATURED)

if workflow.is_main_process:
    warnings = [stray for place in places.both() for stray in strays(place)]
    # a driver that does not work stops only a campaign that measures a GPU
    with suppress(InputError):
        warnings += detect.left_out()
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)
# With --sdm apptainer, jobs run the image's package, which lies at this path: in its place they get the one of this checkout
# (Apptainer's user guide, "Bind Paths and Mounts").
BIND = "APPTAINER_BIND" if shutil.which("apptainer") else "SINGULARITY_BIND"
if places.IS_CHECKOUT:
    bound = [f"{places.HOME}:/opt/gemm-ladder", os.environ.get(BIND)]
    os.environ[BIND] = ",".join(filter(None, bound))


# What profiles/default limits is of this machine: submitted jobs do not count.
resource_scopes:
    measuring="local",


wildcard_constraints:
    device="[a-z0-9-]+",
    dataset="[a-z0-9_-]+",
    arch="[a-z0-9_-]+",
    kernel="[A-Za-z0-9_-]+",
    kind="cuda|cpu",
    job=rf"({'|'.join(ELEMENT_TYPES)})(\.[0-9]+of[0-9]+)?",
    part=r"(\.[0-9]+of[0-9]+)?",


def targets_of(wildcards):
    """The targets of the campaign that wildcards name, else of the one that the command line asks for."""
    with clear_errors():
        return CAMPAIGNS.targets(getattr(wildcards, "dataset", CAMPAIGN))


def datasets_of(wildcards):
    """The datasets of a campaign, or the published ones, for the page that shows them."""
    redrawn = wildcards.dataset == dataset_layout.REDRAWN
    return REDRAWN if redrawn else targets_of(wildcards).datasets


def of(name):
    """A function of wildcards from a method of the targets that takes a device."""
    return lambda wildcards: getattr(targets_of(wildcards), name)(wildcards.device)


def kernel_of(wildcards):
    """The kernel that a compile job's wildcards name."""
    return targets_of(wildcards).kernel(wildcards.arch, wildcards.kernel)


def plan(name):
    """A function of wildcards: the file that says what the job of a name must do."""
    return lambda wildcards: targets_of(wildcards).plan(name.format(**wildcards))


def plan_digest(name):
    """A function of wildcards. By a clock that is wrong, a plan that has changed may be older than what was made by it."""
    return lambda wildcards: targets_of(wildcards).plan_digest(name.format(**wildcards))


# all jobs of a device have the same
fingerprint_of = cache(provenance.fingerprint)


@clear_errors()
def fingerprint(wildcards):
    """What a measurement depends on besides the project."""
    return fingerprint_of(targets_of(wildcards).device(wildcards.device))


def measuring_threads(wildcards):
    """The threads of a job that runs on a device."""
    return targets_of(wildcards).measuring_threads(
        wildcards.device, workflow.cores or 1
    )


def usual(name):
    """A function of targets and threads: an amount that the targets name."""
    return lambda targets, threads: getattr(targets, name)


def everything(wildcards):
    """All that the campaign makes, and with the default one, on a machine without a GPU, the published figures again."""
    targets = targets_of(wildcards)
    redraws = CAMPAIGN == "default" and not CAMPAIGNS.gpus(targets.campaign)
    headline = [
        path for path in redrawn_files() if f"/{published_index.HEADLINE}/" in path
    ]
    return targets.everything() + (headline if redraws else [])


def redrawn_files():
    """What is made from every published dataset. A file that is missing is made again."""
    return REDRAWN.files("figures", *(f"{name}.csv" for name in dataset_layout.TABLES))


def redrawn(wildcards):
    """All that is drawn from published data. No kernel of the checkout is needed: those that cannot be used are warnings."""
    with clear_errors():
        places.published()
    for error in CAMPAIGNS.refused.values():
        print(f"Warning: {error}", file=sys.stderr)
    return redrawn_files() + REDRAWN.page()


def counted(wildcards):
    """The figures of hardware counters, and what a run prints last. What they lack is an error before anything is measured."""
    with clear_errors():
        targets = targets_of(wildcards)
        # the machines that run submitted jobs may have other programs
        figures = targets.counted(engine.submits(workflow) or bool(shutil.which("ncu")))
        return figures + targets.datasets.files(
            dataset_layout.COUNTERS, "best.csv", kind="cuda"
        )


def reproduced(wildcards):
    """The judgments of all claims, and the measurements and tables that they are about."""
    with clear_errors():
        everything = CAMPAIGNS.targets(REPRODUCED).everything()
    return [f"results/{REPRODUCED}/reproduced.json"] + [
        path
        for path in everything
        if path.endswith((".csv", ".parquet")) and "/build/" not in path
    ]
