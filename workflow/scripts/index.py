"""Make the explorer of a campaign, or of all published datasets."""

import json
from pathlib import Path

from ladder.core.files import write_whole
from ladder.figures import explorer
from ladder.pipeline.job_log import job
from ladder.storage import csv_files
from ladder.storage.dataset_layout import INDEXED

with job(snakemake.log[0]):
    datasets, claims = {}, []
    for name, environment in zip(
        snakemake.params.names, map(Path, snakemake.input.environments), strict=True
    ):
        folder = Path(snakemake.output[0]).parent / name
        read = {table: csv_files.read_csv(folder / f"{table}.csv") for table in INDEXED}
        datasets[name] = read, json.loads(environment.read_text())
    for path in map(Path, snakemake.input.claims):
        claims += explorer.read_claims(path)
    write_whole(
        Path(snakemake.output[0]), explorer.page(snakemake.params.title, datasets, claims).encode()
    )
