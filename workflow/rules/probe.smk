# What a device is and what it can do at best. Every measurement waits for it, so it comes first.
rule support:
    output:
        "results/{dataset}/build/{arch}/support.bin",
    log:
        "results/{dataset}/logs/support-{arch}.log",
    priority: 2
    resources:
        **requests(gpu=False, mem_mb=2000, runtime=10),
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
    priority: 2
    threads: measuring_threads
    resources:
        **requests(gpu=True, mem_mb=3000, runtime=10),
    params:
        fingerprint=lambda wildcards: FINGERPRINTS[wildcards.device],
        code=sources.digest("probe"),
    script:
        "../scripts/probe.py"
