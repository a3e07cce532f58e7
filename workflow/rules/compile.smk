# The configurations of a kernel for an architecture, compiled side by side in the job's threads. Needs no GPU and no driver.
# The priority lets it run before measurements that could already start: on a CPU they take all cores.
rule compile:
    input:
        lambda wildcards: [
            kernel_of(wildcards).path,
            *kernel_of(wildcards).includes,
        ],
        plan=plan("compile-{arch}-{kernel}"),
    output:
        resources="results/{dataset}/build/{arch}/{kernel}/resources.csv",
    log:
        "results/{dataset}/logs/compile-{arch}-{kernel}.log",
    priority: 1
    threads:
        lambda wildcards: targets_of(wildcards).compiling_threads(
            wildcards.arch, wildcards.kernel, workflow.cores or 1
        )
    resources:
        **CAMPAIGNS.requests(
            gpu=False, mem_mb=lambda targets, threads: 1000 + 500 * threads, runtime=30
        ),
    params:
        plan=plan_digest("compile-{arch}-{kernel}"),
        compilers=clear_errors()(
            lambda wildcards: [
                toolchain.versions(kernel_of(wildcards), name)
                for name in targets_of(wildcards).campaign.compilers(
                    kernel_of(wildcards)
                )
            ]
        ),
        code=code_digest.digest("compiling.compile"),
    script:
        "../scripts/compile.py"
