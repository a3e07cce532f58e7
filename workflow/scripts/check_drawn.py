"""Compare the figures drawn from published data with their checksums."""

from pathlib import Path

from ladder.cli import publish
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    publish.check_drawn(Path(snakemake.params.folder), Path(snakemake.output[0]).parent)
