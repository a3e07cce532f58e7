"""Make the tables of a dataset."""

import json
from pathlib import Path

from ladder import tables
from ladder.jobs import job

with job(snakemake.log[0]):
    environment = json.loads(Path(snakemake.input.environment).read_text())
    records, sessions = tables.load([Path(path) for path in snakemake.input.samples], environment)
    summary = tables.summarise(records, environment["peaks"]["fp32_tflops"], tables.flop_per_clock(environment))
    tables.write_csv(summary, Path(snakemake.output.summary))
    tables.write_csv(tables.best(summary), Path(snakemake.output.best))
    tables.write_csv(tables.costs(sessions), Path(snakemake.output.costs))
