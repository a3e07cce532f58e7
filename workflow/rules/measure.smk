# One job for each part of the sweep: several kernels in one element type, on all problems, each timed beside the reference.
rule measure:
    input:
        plan=plan("measure-{device}-{job}"),
        resources=lambda wildcards: targets_of(wildcards).binaries(
            wildcards.device, wildcards.job
        ),
        support=of("support"),
        environment="results/{dataset}/{device}/environment.json",
    output:
        samples="results/{dataset}/{device}/samples/{job}.parquet",
    log:
        "results/{dataset}/logs/measure-{device}-{job}.log",
    threads: measuring_threads
    resources:
        **CAMPAIGNS.requests(
            gpu=True, mem_mb=usual("measuring_mb"), runtime=usual("sweep_minutes")
        ),
    params:
        plan=plan_digest("measure-{device}-{job}"),
        fingerprint=fingerprint,
        code=code_digest.digest("measuring.sweep", "measuring.worker"),
    script:
        "../scripts/measure.py"
