"""Draw the figures of a dataset."""

from pathlib import Path

from ladder import figures, tables
from ladder.campaign import DRAWN_FROM
from ladder.jobs import job, read_environment

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    read = {name: tables.read_csv(Path(snakemake.input[name])) for name in DRAWN_FROM}
    figures.draw_all(read, environment, Path(snakemake.output[0]), snakemake.threads, **snakemake.params.drawing)
