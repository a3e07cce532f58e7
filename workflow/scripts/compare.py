"""Draw the datasets of a campaign side by side."""

from pathlib import Path

from ladder.figures import draw, selection
from ladder.pipeline.job_log import job
from ladder.storage.dataset_layout import DRAWN_FROM, read_environment

with job(snakemake.log[0]):
    output, read, environments = Path(snakemake.output[0]), {}, {}
    for path in map(Path, snakemake.input.environments):
        folder, name = path.parent, path.parent.name
        environments[name] = read_environment(path)
        read[name] = selection.read(
            {table: folder / f"{table}.csv" for table in ("best", "summary")}
        )
        for table in DRAWN_FROM[2:]:  # no row of theirs is shown
            read[name][table] = read[name]["best"].head(0)
    draw.draw_comparison(read, environments, output.with_suffix(""), snakemake.params.formats)
