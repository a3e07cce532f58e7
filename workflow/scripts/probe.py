"""Describe a device and measure its peaks."""

import json
from pathlib import Path

from ladder.environment import here
from ladder.jobs import job
from ladder.measure import exclusive, uuids
from ladder.probe import probe

with job(snakemake.log[0]):
    device = here(snakemake.wildcards.device)
    with exclusive(uuids(device)) as uuid:
        found = probe(device, uuid, Path(snakemake.input.support))
    Path(snakemake.output.environment).write_text(json.dumps(found, indent=1) + "\n")
