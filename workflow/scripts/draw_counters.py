"""Draw the models against the hardware counters."""

from pathlib import Path

from ladder import figures, tables
from ladder.campaign import DRAWN_FROM
from ladder.jobs import job, read_environment

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    read = {name: tables.read_csv(Path(snakemake.input[name])) for name in DRAWN_FROM}
    counts, stem = tables.read_csv(Path(snakemake.input.counters)), Path(snakemake.output[0]).with_suffix("")
    figures.draw_counters(counts, read, environment, stem, **snakemake.params.drawing)
