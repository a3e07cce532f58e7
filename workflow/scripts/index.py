"""Make the page to look around in of a campaign, or of all published datasets."""

import json
from pathlib import Path

from ladder import index, tables
from ladder.campaign import INDEXED
from ladder.jobs import job, write_whole

with job(snakemake.log[0]):
    datasets, claims = {}, []
    for name, environment in zip(snakemake.params.names, map(Path, snakemake.input.environments), strict=True):
        folder = Path(snakemake.output[0]).parent / name
        read = {table: tables.read_csv(folder / f"{table}.csv") for table in INDEXED}
        datasets[name] = read, json.loads(environment.read_text())
    for path in map(Path, snakemake.input.claims):
        claims += index.read_claims(path)
    write_whole(Path(snakemake.output[0]), index.page(snakemake.params.title, datasets, claims).encode())
