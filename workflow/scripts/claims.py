"""Compare a dataset with the claims."""

from pathlib import Path

from ladder.claims import evidence, judge
from ladder.core.files import ROOT
from ladder.pipeline.job_log import job
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import CLAIMED_OF, REDRAWN, read_environment

with job(snakemake.log[0]):
    dataset, device = snakemake.wildcards.dataset, snakemake.wildcards.device
    tables = {name: read_csv(snakemake.input[name]) for name in CLAIMED_OF}
    environment = read_environment(snakemake.input.environment)
    name = device if dataset == REDRAWN else f"results/{dataset}/{device}"
    data = evidence.of_tables(tables, environment, name)
    judge.write(judge.held_against(ROOT, data), Path(snakemake.output[0]))
