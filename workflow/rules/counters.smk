# Hardware counters beside the models, by Nsight Compute; not part of the default target. Where it is missing or refuses, the table says so.
rule count:
    input:
        best="results/{dataset}/{device}/best.csv",
        resources="results/{dataset}/{device}/resources.csv",
        kernels=dataset_kernels,
        binaries=dataset_resources,
        support=lambda wildcards: f"results/{wildcards.dataset}/build/{BY_SLUG[wildcards.device].arch}/support.bin",
    output:
        counters="results/{dataset}/{device}/counters.csv",
    log:
        "results/{dataset}/logs/count-{device}.log",
    threads: measuring_threads
    resources:
        **requests(gpu=True, mem_mb=MEASURING_MB, runtime=60),
    params:
        ncu=shutil.which("ncu"),
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=sources.digest("counters"),
    script:
        "../scripts/count.py"


rule draw_counters:
    input:
        counters=dataset_counters,
        summary="results/{dataset}/{device}/summary.csv",
        best="results/{dataset}/{device}/best.csv",
        models="results/{dataset}/{device}/models.csv",
        environment=dataset_environment,
    output:
        report(
            "results/{dataset}/{device}/counters.svg",
            category="{device}",
            caption="../report/counters.rst",
            labels={"figure": "counters"},
        ),
        "results/{dataset}/{device}/counters.png",
        "results/{dataset}/{device}/counters.pdf",
    log:
        "results/{dataset}/logs/draw_counters-{device}.log",
    params:
        code=sources.digest("figures"),
    script:
        "../scripts/draw_counters.py"
