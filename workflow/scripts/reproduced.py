"""All that is said to the claims, as a table and as a page."""

import json
from pathlib import Path

from ladder import claims
from ladder.environment import ROOT
from ladder.jobs import job, write_whole
from ladder.study import ANSWERS

with job(snakemake.log[0]):
    here = [entry for path in snakemake.input.here for entry in json.loads(Path(path).read_text())]
    entries = [*here, *claims.held_against(ROOT, claims.of_studies(ROOT, ANSWERS)), *claims.read_published(ROOT)]
    claims.write(entries, Path(snakemake.output.table))
    write_whole(Path(snakemake.output.page), claims.page(entries).encode())
