"""Draw the models against the hardware counters."""

import json
from pathlib import Path

from ladder import figures, tables
from ladder.campaign import DRAWN_FROM
from ladder.jobs import job

with job(snakemake.log[0]):
    environment = json.loads(Path(snakemake.input.environment).read_text())
    read = {name: tables.read_csv(Path(snakemake.input[name])) for name in DRAWN_FROM}
    counts, stem = tables.read_csv(Path(snakemake.input.counters)), Path(snakemake.output[0]).with_suffix("")
    figures.draw_counters(counts, read, environment, stem, **snakemake.params.drawing)
