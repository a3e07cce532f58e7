"""Compare the files of a published dataset with their checksums."""

from pathlib import Path

from ladder.pipeline.job_log import job
from ladder.publishing import publish

with job(snakemake.log[0]):
    publish.check_data(Path(snakemake.params.folder))
