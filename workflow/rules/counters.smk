# Hardware counters beside the models, by Nsight Compute; not part of the default target. Where it refuses, the table says so.
rule count:
    input:
        best="results/{dataset}/{device}/best.csv",
        resources="results/{dataset}/{device}/resources.csv",
        kernels=of(TARGETS.headers),
        binaries=of(TARGETS.resources),
        support=of(TARGETS.support),
    output:
        counters="results/{dataset}/{device}/counters.csv",
    log:
        "results/{dataset}/logs/count-{device}.log",
    threads: lambda wildcards: TARGETS.measuring_threads(wildcards.device, workflow.cores or 1)
    resources:
        **TARGETS.requests(gpu=True, mem_mb=MEASURING_MB, runtime=60),
    params:
        ncu=shutil.which("ncu"),
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=code_digest.digest("measuring.counters"),
    script:
        "../scripts/count.py"


rule draw_counters:
    input:
        **{
            name: f"results/{{dataset}}/{{device}}/{name}.csv"
            for name in dataset_layout.DRAWN_FROM
        },
        counters=of(TARGETS.counters),
        environment=of(TARGETS.environment),
    output:
        report(
            "results/{dataset}/{device}/counters.svg",
            category="{dataset}",
            subcategory="{device}",
            caption="../report/counters.rst",
            labels={"figure": "counters"},
        ),
    log:
        "results/{dataset}/logs/draw_counters-{device}.log",
    params:
        drawing=lambda wildcards: TARGETS.drawing(wildcards.dataset),
        code=code_digest.digest("figures.draw"),
    script:
        "../scripts/draw_counters.py"
