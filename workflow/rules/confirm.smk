# One job for each device, or several if the confirmation is long: the finalists of all kernels, measured again side by side in fresh
# processes, on the problems of the part.
rule confirm:
    input:
        plan=plan("confirm-{device}{part}"),
        samples=of("samples"),
        resources=of("resources"),
        support=of("support"),
        environment="results/{dataset}/{device}/environment.json",
    output:
        confirmed="results/{dataset}/{device}/confirmed{part}.parquet",
    log:
        "results/{dataset}/logs/confirm-{device}{part}.log",
    threads: measuring_threads
    resources:
        **CAMPAIGNS.requests(
            gpu=True, mem_mb=usual("measuring_mb"), runtime=usual("confirm_minutes")
        ),
    params:
        plan=plan_digest("confirm-{device}{part}"),
        fingerprint=fingerprint,
        code=code_digest.digest("measuring.confirmation", "measuring.worker"),
    script:
        "../scripts/confirm.py"
