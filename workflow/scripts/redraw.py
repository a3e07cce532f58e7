"""Draw a published dataset again, after comparing its files with their checksums."""

from pathlib import Path

from ladder.cli import publish
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    featured = Path(snakemake.params.featured)
    publish.check_data(featured.parent)
    publish.draw(featured, Path(snakemake.output.summary).parent, snakemake.threads)
