"""Make the tables of a dataset."""

from pathlib import Path

from ladder.analysis import dataset_tables
from ladder.model.kernel_file import parse
from ladder.pipeline.job_log import job
from ladder.storage import csv_files
from ladder.storage.dataset_layout import read_environment

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    names = ("samples", "confirmed", "resources", "kernels")
    samples, confirmed, resources, kernels = ([Path(path) for path in snakemake.input[name]] for name in names)
    made = dataset_tables.dataset_tables([*samples, *confirmed], resources, map(parse, kernels), environment)
    paths = {name: Path(snakemake.output[name]) for name in made}
    for name, table in made.items():
        csv_files.write_csv(table, paths[name])
