"""Print which claims were reproduced, and fail if one was not."""

import json
from pathlib import Path

from ladder.claims import judge, report
from ladder.core.errors import InputError
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    entries = json.loads(Path(snakemake.input.table).read_text())
    print(report.text(entries))
    failed = [entry for entry in entries if entry["state"] == judge.FAILED]
    if failed:
        raise InputError("\n".join(["not reproduced:", *(f"  {report.failure(entry)}" for entry in failed)]))
