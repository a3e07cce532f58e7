"""Make the explorer of a campaign, or of all published datasets: the page and its data."""

import json
from pathlib import Path

from ladder.core.files import write_whole
from ladder.figures import explorer
from ladder.pipeline.job_log import job
from ladder.storage import csv_files

with job(snakemake.log[0]):
    datasets, claims = {}, []
    for name, table, environment in zip(
        snakemake.params.names, snakemake.input.tables, snakemake.input.environments, strict=True
    ):
        datasets[name] = csv_files.read_csv(Path(table)), json.loads(Path(environment).read_text())
    for path in map(Path, snakemake.input.claims):
        claims += explorer.read_claims(path)
    folder = Path(snakemake.output.page).parent
    for name, text in explorer.files(snakemake.params.title, datasets, claims).items():
        write_whole(folder / name, text.encode())
