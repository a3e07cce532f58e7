"""Write the entries of all claims as a table and as a page."""

from pathlib import Path

from ladder.claims import judge, report
from ladder.core.files import read_json, write_whole
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    entries = [entry for path in snakemake.input for entry in read_json(Path(path))]
    claim = snakemake.params.claim
    entries = [entry for entry in entries if not claim or f"{entry['id']}:".startswith(f"{claim}:")]
    table = Path(snakemake.output.table)
    entries = report.count_attempts(entries, table.parents[1] / "attempts.json")
    judge.write(entries, table)
    write_whole(Path(snakemake.output.page), report.page(entries).encode())
