"""Compare all published datasets with the claims again."""

from pathlib import Path

from ladder.claims import judge
from ladder.core.places import HOME
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    judge.write(judge.of_published(HOME), Path(snakemake.output[0]))
