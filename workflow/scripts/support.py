"""Compile what the pipeline itself runs on a device."""

from pathlib import Path

from ladder.compile import compile_support
from ladder.environment import check_native
from ladder.jobs import job, write_whole

with job(snakemake.log[0]):
    arch = snakemake.wildcards.arch
    check_native(arch)
    output = Path(snakemake.output[0])
    write_whole(output, compile_support("cuda" if arch.startswith("sm_") else "cpu", arch))
