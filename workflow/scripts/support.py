"""Compile the pipeline's own device code."""

from pathlib import Path

from ladder.compiling.compile import compile_support
from ladder.core.files import write_whole
from ladder.devices.detect import check_native
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    arch = snakemake.wildcards.arch
    check_native(arch)
    output = Path(snakemake.output[0])
    kind = "cuda" if arch.startswith("sm_") else "cpu"
    write_whole(output, compile_support(kind, arch, snakemake.threads))
