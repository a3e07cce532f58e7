# One job for each device: the finalists of all kernels, measured again side by side in fresh processes.
rule confirm:
    input:
        plan=plan("confirm-{device}"),
        samples=of("samples"),
        resources=of("resources"),
        support=of("support"),
        environment="results/{dataset}/{device}/environment.json",
    output:
        confirmed="results/{dataset}/{device}/confirmed.parquet",
    log:
        "results/{dataset}/logs/confirm-{device}.log",
    threads: measuring_threads
    resources:
        **CAMPAIGNS.requests(gpu=True, mem_mb=measuring_mb, runtime=60),
    params:
        plan=plan_digest("confirm-{device}"),
        fingerprint=fingerprint,
        code=code_digest.digest("measuring.confirmation", "measuring.worker"),
    script:
        "../scripts/confirm.py"
