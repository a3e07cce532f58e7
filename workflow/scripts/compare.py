"""Draw the datasets of a campaign side by side."""

import json
from pathlib import Path

from ladder import figures, tables
from ladder.jobs import job

with job(snakemake.log[0]):
    folders = [Path(path).parent for path in snakemake.input.environments]
    read = {f.name: tuple(tables.read_csv(f / f"{name}.csv") for name in ("summary", "best", "models")) for f in folders}
    environments = {f.name: json.loads((f / "environment.json").read_text()) for f in folders}
    figures.draw_comparison(read, environments, Path(snakemake.output[0]).with_suffix(""))
