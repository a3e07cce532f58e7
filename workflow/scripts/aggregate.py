"""Make the tables of a dataset."""

from pathlib import Path

from ladder import aggregate, tables
from ladder.jobs import job, read_environment
from ladder.kernels import parse

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    names = ("samples", "confirmed", "resources", "kernels")
    samples, confirmed, resources, kernels = ([Path(path) for path in snakemake.input[name]] for name in names)
    for name, table in aggregate.dataset_tables([*samples, *confirmed], resources, map(parse, kernels), environment).items():
        tables.write_csv(table, Path(snakemake.output[name]))
