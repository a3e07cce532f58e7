"""Draw the figures of a dataset."""

import json
from pathlib import Path

from ladder import figures, tables
from ladder.jobs import job

with job(snakemake.log[0]):
    environment = json.loads(Path(snakemake.input.environment).read_text())
    summary, best, models = (tables.read_csv(Path(snakemake.input[name])) for name in ("summary", "best", "models"))
    figures.draw_all(summary, best, models, environment, Path(snakemake.output[0]), snakemake.threads)
