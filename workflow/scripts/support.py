"""Compile what the pipeline itself runs on a device."""

from pathlib import Path

from ladder.compile import compile_support
from ladder.jobs import job, write_whole

with job(snakemake.log[0]):
    arch = snakemake.wildcards.arch
    write_whole(Path(snakemake.output[0]), compile_support("cuda" if arch.startswith("sm_") else "cpu", arch))
