"""Hold the files of a published dataset against their checksums."""

from pathlib import Path

from ladder import publish
from ladder.jobs import job

with job(snakemake.log[0]):
    publish.check_data(Path(snakemake.params.folder))
