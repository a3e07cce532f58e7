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


# Everything the campaign asks of this machine, and with the default campaign the published figures drawn again.
rule all:
    default_target: True
    input:
        TARGETS.compiled(),
        TARGETS.tables(),
        TARGETS.measured("figures", "figures.sha256", "claims.json"),
        TARGETS.compared(),
        f"results/{CAMPAIGN.name}/index.html",
        TARGETS.redrawn() if CAMPAIGN.name == "default" and not GPUS else [],


# The tables and figures of every published dataset, from its committed samples and held against its checksums: needs no GPU.
rule published:
    input:
        TARGETS.redrawn(),


# The models against hardware counters, where Nsight Compute is at hand and allowed.
rule counters:
    input:
        TARGETS.measured("counters.svg"),


# The result, last; the exit code is 2 where a kernel of the campaign is not right.
onsuccess:
    from ladder import result

    made = {}
    for job in workflow.dag.jobs:
        made.setdefault(job.rule.name, []).extend(map(Path, job.output))
    told, wrong = result.tell(made, shutil.get_terminal_size().lines)
    print(told, flush=True)
    if wrong:
        print(f"Not right:\n{wrong}", file=sys.stderr, flush=True)
        sys.exit(result.NOT_RIGHT)


# What the jobs that failed have said, last.
onerror:
    said = "".join(Path(file).read_text() for file in log)
    for line in [*targets.errors(said), *targets.refusals([said], source)]:
        print(line, file=sys.stderr)
