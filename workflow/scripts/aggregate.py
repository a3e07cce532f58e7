"""Make the tables of a dataset."""

from pathlib import Path

from ladder import aggregate, tables
from ladder.jobs import job, read_environment
from ladder.kernels import parse

with job(snakemake.log[0]):
    environment = read_environment(snakemake.input.environment)
    names = ("samples", "confirmed", "resources", "kernels")
    samples, confirmed, resources, kernels = ([Path(path) for path in snakemake.input[name]] for name in names)
    made = aggregate.dataset_tables([*samples, *confirmed], resources, map(parse, kernels), environment)
    paths = {name: Path(snakemake.output[name]) for name in made}
    for name, table in made.items():
        tables.write_csv(table, paths[name])
