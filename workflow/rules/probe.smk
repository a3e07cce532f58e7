# The description of a device and its measured peaks. Every measurement waits for it, so it comes first.
rule support:
    output:
        "results/{dataset}/build/{arch}/support.bin",
    log:
        "results/{dataset}/logs/support-{arch}.log",
    priority: 9  # more than that of all compile jobs that its threads displace
    # the other cores compile kernels meanwhile
    threads: max(1, min(4, (workflow.resource_settings.cores or 1) // 2))
    resources:
        **CAMPAIGNS.requests(gpu=False, mem_mb=2000, runtime=10),
    params:
        compiler=clear_errors()(
            lambda wildcards: toolchain.compiler_version(
                "nvcc" if wildcards.arch.startswith("sm_") else "cc"
            )
        ),
        code=code_digest.digest("devices.operands", "compiling.compile"),
    script:
        "../scripts/support.py"


rule probe:
    input:
        support=of("support"),
    output:
        environment="results/{dataset}/{device}/environment.json",
    log:
        "results/{dataset}/logs/probe-{device}.log",
    priority: 2
    threads: measuring_threads
    resources:
        **CAMPAIGNS.requests(gpu=True, mem_mb=3000, runtime=10),
    params:
        machine=of("machine"),
        fingerprint=fingerprint,
        code=code_digest.digest("measuring.probe"),
    script:
        "../scripts/probe.py"
