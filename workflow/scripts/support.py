"""Compile what the pipeline itself runs on a device."""

from pathlib import Path

from ladder.compile import compile_support
from ladder.jobs import job

with job(snakemake.log[0]):
    arch = snakemake.wildcards.arch
    Path(snakemake.output[0]).write_bytes(compile_support("cuda" if arch.startswith("sm_") else "cpu", arch))
