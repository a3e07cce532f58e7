"""Draw the datasets of a campaign side by side."""

from pathlib import Path

from ladder.figures import draw
from ladder.pipeline.job_log import job
from ladder.storage import csv_files
from ladder.storage.dataset_layout import read_environment

with job(snakemake.log[0]):
    environments = {Path(path).parent.name: read_environment(path) for path in snakemake.input.environments}
    read = {name: {} for name in environments}
    for path in map(Path, snakemake.input.tables):
        read[path.parent.name][path.stem] = csv_files.read_csv(path)
    draw.draw_comparison(read, environments, Path(snakemake.output[0]).with_suffix(""), **snakemake.params.drawing)
