"""Draw the figures of a dataset, or that of its hardware counters."""

from pathlib import Path

from ladder.figures import draw, selection
from ladder.pipeline.job_log import job
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import DRAWN_FROM, read_environment

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    tables = selection.read({name: Path(snakemake.input[name]) for name in DRAWN_FROM})
    output, formats = Path(snakemake.output[0]), snakemake.params.formats
    if snakemake.rule == "draw_counters":
        counters = read_csv(Path(snakemake.input.counters))
        draw.draw_counters(counters, tables, environment, output.with_suffix(""), formats)
    else:
        draw.draw_all(tables, environment, output, snakemake.threads, formats)
