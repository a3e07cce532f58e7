"""Tell what was reproduced, and fail where something was not."""

import json
from pathlib import Path

from ladder import claims
from ladder.jobs import job
from ladder.units import InputError

with job(snakemake.log[0]):
    entries = json.loads(Path(snakemake.input.table).read_text())
    print(claims.text(entries))
    failed = [entry for entry in entries if entry["state"] == claims.FAILED]
    if failed:
        raise InputError("\n".join(["not reproduced:", *(f"  {claims.failure(entry)}" for entry in failed)]))
