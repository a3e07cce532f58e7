"""Compare a dataset with the claims."""

from pathlib import Path

from ladder.claims import evidence, judge
from ladder.core.places import HOME
from ladder.pipeline.job_log import job
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import CLAIMED_OF, read_environment

with job(snakemake.log[0]):
    tables = {name: read_csv(snakemake.input[name]) for name in CLAIMED_OF}
    output = Path(snakemake.output[0])
    environment = read_environment(snakemake.input.environment)
    data = evidence.of_tables(tables, environment, str(output.parent))
    judge.write(judge.held_against(HOME, data), output)
