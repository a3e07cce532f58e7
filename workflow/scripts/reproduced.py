"""Write the entries of all claims as a table and as a page. Judging the published data again takes
about 10 s.
"""

import json
from pathlib import Path

from ladder.claims import judge, report
from ladder.core.files import ROOT, write_whole
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    here = [entry for path in snakemake.input.here for entry in json.loads(Path(path).read_text())]
    entries = [*here, *judge.of_published(ROOT)]
    claim = snakemake.params.claim
    entries = [entry for entry in entries if not claim or f"{entry['id']}:".startswith(f"{claim}:")]
    judge.write(entries, Path(snakemake.output.table))
    write_whole(Path(snakemake.output.page), report.page(entries).encode())
