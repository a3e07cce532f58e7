# Gemm Ladder: compile, verify, time and draw GEMM kernels. CONTRIBUTING.md shows the way of the data.
from snakemake.utils import min_version

min_version("9.0")


# Used with --sdm apptainer only; docs/container.md says how it is made.
container: "gemm-ladder.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/probe.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/confirm.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/counters.smk"
include: "workflow/rules/published.smk"
include: "workflow/rules/claims.smk"


# Everything the campaign asks of this machine, and the published figures drawn again.
rule all:
    default_target: True
    input:
        TARGETS.compiled(),
        TARGETS.measured("figures", "claims.json"),
        TARGETS.compared(),
        f"results/{CAMPAIGN.name}/index.html",
        TARGETS.redrawn(),


# The tables and figures of every published dataset, from its committed samples and held against its checksums: needs no GPU.
rule published:
    input:
        TARGETS.redrawn(),


# The models against hardware counters, where Nsight Compute is at hand and allowed.
rule counters:
    input:
        TARGETS.measured("counters.svg"),


onsuccess:
    for costs in filter(os.path.exists, TARGETS.measured("costs.csv")):
        print(targets.busy_share(Path(costs)))


onerror:
    for line in targets.refusals((Path(file).read_text() for file in log), source):
        print(line, file=sys.stderr)
