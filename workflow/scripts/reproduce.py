"""Tell what was reproduced, and fail where something was not."""

import json
from pathlib import Path

from ladder import judged, reproduced
from ladder.jobs import job
from ladder.units import InputError

with job(snakemake.log[0]):
    entries = json.loads(Path(snakemake.input.table).read_text())
    print(reproduced.text(entries))
    failed = [entry for entry in entries if entry["state"] == judged.FAILED]
    if failed:
        raise InputError("\n".join(["not reproduced:", *(f"  {reproduced.failure(entry)}" for entry in failed)]))
