"""Draw the models against the hardware counters."""

import json
from pathlib import Path

from ladder import figures, tables
from ladder.jobs import job

with job(snakemake.log[0]):
    environment = json.loads(Path(snakemake.input.environment).read_text())
    read = (tables.read_csv(Path(snakemake.input[name])) for name in ("counters", "summary", "best", "models"))
    figures.draw_counters(*read, environment, Path(snakemake.output[0]).with_suffix(""))
