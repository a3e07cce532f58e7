"""All that is said to the claims, as a table and as a page. The published data are judged anew: some 10 s."""

import json
from pathlib import Path

from ladder import claims, judged, reproduced
from ladder.environment import ROOT
from ladder.jobs import job, write_whole
from ladder.study import ANSWERS

with job(snakemake.log[0]):
    here = [entry for path in snakemake.input.here for entry in json.loads(Path(path).read_text())]
    entries = [*here, *judged.held_against(ROOT, claims.of_studies(ROOT, ANSWERS)), *judged.of_published(ROOT)]
    judged.write(entries, Path(snakemake.output.table))
    write_whole(Path(snakemake.output.page), reproduced.page(entries).encode())
