"""Draw a published dataset again, and compare its files and what is drawn with their checksums."""

import shutil
from pathlib import Path

from ladder.cli import publish
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    featured = Path(snakemake.params.featured)
    environment, group = Path(snakemake.output.environment), featured.parent
    publish.check_data(group)
    shown = [path.stem for path in (group / "figures").glob("*.svg")]
    publish.draw(featured, environment.parent, shown)
    shutil.copyfile(featured / environment.name, environment)
    publish.check_drawn(group, environment.parent)
