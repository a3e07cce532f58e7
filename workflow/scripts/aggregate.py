"""Make the tables of a dataset."""

from pathlib import Path

from ladder.analysis.dataset import Dataset
from ladder.model.kernel_file import parse
from ladder.pipeline.job_log import job
from ladder.storage.dataset_layout import TABLES, drop_others

with job(snakemake.log[0]):
    names = ("samples", "confirmed", "resources", "kernels")
    samples, confirmed, resources, kernels = (
        [Path(path) for path in snakemake.input[name]] for name in names
    )
    environment = Path(snakemake.input.environment)
    drop_others(environment.parent, [*samples, *confirmed])
    dataset = Dataset([*samples, *confirmed], environment, resources, map(parse, kernels))
    dataset.write({name: Path(snakemake.output[name]) for name in TABLES})
