# One job a kernel and element type (or a shard of its configurations): all its problems, each paired with the reference.
rule measure:
    input:
        resources=lambda wildcards: TARGETS.binaries(
            wildcards.dataset, wildcards.device, wildcards.job
        ),
        support=of(TARGETS.support),
        environment="results/{dataset}/{device}/environment.json",
    output:
        samples="results/{dataset}/{device}/samples/{job}.parquet",
    log:
        "results/{dataset}/logs/measure-{device}-{job}.log",
    threads: lambda wildcards: TARGETS.measuring_threads(wildcards.device, workflow.cores or 1)
    resources:
        **TARGETS.requests(gpu=True, mem_mb=MEASURING_MB, runtime=60),
    params:
        plan=lambda wildcards: files.digest(
            CAMPAIGN.plan(TARGETS.device(wildcards.device).kind, wildcards.job)
        ),
        contents=lambda wildcards: TARGETS.contents_of(wildcards.device, wildcards.job),
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=code_digest.digest("measuring.sweep", "measuring.worker"),
    script:
        "../scripts/measure.py"
