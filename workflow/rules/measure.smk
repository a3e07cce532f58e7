# One job for each kernel and element type, or for a shard of its configurations: all problems, each timed beside the reference.
rule measure:
    input:
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
        **CAMPAIGNS.requests(gpu=True, mem_mb=measuring_mb, runtime=60),
    params:
        plan=lambda wildcards: files.digest(
            targets_of(wildcards).plan(wildcards.device, wildcards.job)
        ),
        contents=lambda wildcards: targets_of(wildcards).contents_of(
            wildcards.device, wildcards.job
        ),
        fingerprint=fingerprint,
        code=code_digest.digest("measuring.sweep", "measuring.worker"),
    script:
        "../scripts/measure.py"
