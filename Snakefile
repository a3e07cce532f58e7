# Gemm Ladder: compile, verify, time and draw GEMM kernels. CONTRIBUTING.md shows the way of the data.
from snakemake.utils import min_version

min_version("9.0")


# Used with --sdm apptainer only; docs/container.md says how it is made.
container: "gemm-ladder.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/counters.smk"


# Everything the campaign asks of this machine, and the published figures drawn again.
rule all:
    default_target: True
    input:
        compiled(),
        figures(CAMPAIGN.name, [device.slug for device in DEVICES]),
        compared(),
        figures(REDRAWN, published_devices()),
        counted(REDRAWN, counted_devices()),


# The tables and figures of every published dataset, from its committed samples: needs no GPU.
rule published:
    input:
        figures(REDRAWN, published_devices()),
        counted(REDRAWN, counted_devices()),


# The models against hardware counters, where Nsight Compute is at hand and allowed.
rule counters:
    input:
        counted(CAMPAIGN.name, [device.slug for device in DEVICES]),


onsuccess:
    print_costs()


onerror:
    explain_refusals(log)
