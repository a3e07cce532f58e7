# What a device is and what it can do at best.
rule support:
    output:
        "results/{dataset}/build/{arch}/support.bin",
    log:
        "results/{dataset}/logs/support-{arch}.log",
    params:
        compiler=lambda wildcards: environment.compiler_version(
            "cuda" if wildcards.arch.startswith("sm_") else "cpu"
        ),
        code=sources.digest("devices", "compile"),
    script:
        "../scripts/support.py"


rule probe:
    input:
        support=lambda wildcards: f"results/{wildcards.dataset}/build/{BY_SLUG[wildcards.device].arch}/support.bin",
    output:
        environment="results/{dataset}/{device}/environment.json",
    log:
        "results/{dataset}/logs/probe-{device}.log",
    threads: workflow.cores
    resources:
        gpu=lambda wildcards: int(BY_SLUG[wildcards.device].kind == "cuda"),
    params:
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=sources.digest("probe"),
    script:
        "../scripts/probe.py"
