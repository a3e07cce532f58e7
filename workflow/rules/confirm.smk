# One job a device: what the sweep found best of all kernels, measured again side by side in fresh processes.
rule confirm:
    input:
        samples=of(TARGETS.samples),
        resources=of(TARGETS.resources),
        support=of(TARGETS.support),
        environment="results/{dataset}/{device}/environment.json",
    output:
        confirmed="results/{dataset}/{device}/confirmed.parquet",
    log:
        "results/{dataset}/logs/confirm-{device}.log",
    threads: lambda wildcards: TARGETS.measuring_threads(wildcards.device, workflow.cores or 1)
    resources:
        **TARGETS.requests(gpu=True, mem_mb=MEASURING_MB, runtime=60),
    params:
        plan=lambda wildcards: files.digest(
            CAMPAIGN.confirmation(TARGETS.device(wildcards.device).kind)
        ),
        contents=lambda wildcards: TARGETS.contents(CAMPAIGN.name, wildcards.device),
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=code_digest.digest("measuring.confirmation", "measuring.worker"),
    script:
        "../scripts/confirm.py"
