"""Draw a published dataset again, after comparing its files with their checksums."""

import shutil
from pathlib import Path

from ladder.cli import publish
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    featured = Path(snakemake.params.featured)
    environment = Path(snakemake.output.environment)
    publish.check_data(featured.parent)
    publish.draw(featured, environment.parent, snakemake.threads)
    shutil.copyfile(featured / environment.name, environment)
