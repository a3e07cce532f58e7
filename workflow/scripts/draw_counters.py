"""Draw the models beside the hardware counters."""

from pathlib import Path

from ladder.figures import draw
from ladder.pipeline.job_log import job
from ladder.storage import csv_files
from ladder.storage.dataset_layout import DRAWN_FROM, read_environment

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    read = {name: csv_files.read_csv(Path(snakemake.input[name])) for name in DRAWN_FROM}
    counts, stem = (
        csv_files.read_csv(Path(snakemake.input.counters)),
        Path(snakemake.output[0]).with_suffix(""),
    )
    draw.draw_counters(counts, read, environment, stem, **snakemake.params.drawing)
