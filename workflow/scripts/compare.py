"""Draw the datasets of a campaign side by side."""

from pathlib import Path

from ladder import figures, tables
from ladder.jobs import job, read_environment

with job(snakemake.log[0]):
    environments = {Path(path).parent.name: read_environment(path) for path in snakemake.input.environments}
    read = {name: {} for name in environments}
    for path in map(Path, snakemake.input.tables):
        read[path.parent.name][path.stem] = tables.read_csv(path)
    figures.draw_comparison(read, environments, Path(snakemake.output[0]).with_suffix(""), **snakemake.params.drawing)
