"""Draw the figures of a dataset."""

import json
from pathlib import Path

from ladder import figures
from ladder.jobs import job

with job(snakemake.log[0]):
    environment = json.loads(Path(snakemake.input.environment).read_text())
    summary, best = (figures.read(Path(snakemake.input[name])) for name in ("summary", "best"))
    figures.draw_all(summary, best, environment, Path(snakemake.output[0]))
