# Hardware counters beside the models, by Nsight Compute; not part of the default target. If it refuses, the table says why.
rule count:
    input:
        best="results/{dataset}/{device}/best.csv",
        resources="results/{dataset}/{device}/resources.csv",
        kernels=of("headers"),
        binaries=of("resources"),
        support=of("support"),
    output:
        counters="results/{dataset}/{device}/counters.csv",
    log:
        "results/{dataset}/logs/count-{device}.log",
    threads: measuring_threads
    resources:
        **CAMPAIGNS.requests(gpu=True, mem_mb=usual("measuring_mb"), runtime=60),
    params:
        machine=of("machine"),
        ncu=shutil.which("ncu"),
        fingerprint=fingerprint,
        code=code_digest.digest("measuring.counters"),
    script:
        "../scripts/count.py"


rule draw_counters:
    input:
        **{
            name: f"results/{{dataset}}/{{device}}/{name}.csv"
            for name in dataset_layout.DRAWN_FROM
        },
        counters="results/{dataset}/{device}/counters.csv",
        environment="results/{dataset}/{device}/environment.json",
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
        formats=lambda wildcards: targets_of(wildcards).datasets.formats,
        code=code_digest.digest("figures.draw"),
    script:
        "../scripts/figures.py"
