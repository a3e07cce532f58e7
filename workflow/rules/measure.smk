# One job a kernel and element type (or a shard of its configurations): all its problems, each paired with the reference.
rule measure:
    input:
        resources=binaries,
        support=lambda wildcards: f"results/{wildcards.dataset}/build/{BY_SLUG[wildcards.device].arch}/support.bin",
        environment="results/{dataset}/{device}/environment.json",
    output:
        samples="results/{dataset}/{device}/samples/{job}.parquet",
    log:
        "results/{dataset}/logs/measure-{device}-{job}.log",
    threads: measuring_threads
    resources:
        **requests(gpu=True, mem_mb=MEASURING_MB, runtime=60),
    params:
        plan=lambda wildcards: campaigns.digest(
            CAMPAIGN.plan(BY_SLUG[wildcards.device].kind, wildcards.job)
        ),
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=MEASURING,
    script:
        "../scripts/measure.py"
