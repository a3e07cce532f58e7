"""Compile what the pipeline itself runs on a device."""

from pathlib import Path

from ladder.compile import compile_support

arch = snakemake.wildcards.arch
Path(snakemake.output[0]).write_bytes(compile_support("cuda" if arch.startswith("sm_") else "cpu", arch))
