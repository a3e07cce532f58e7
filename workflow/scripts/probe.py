"""Describe a device and measure its peaks."""

import json
from pathlib import Path

from ladder.environment import clear_errors, here
from ladder.measure import exclusive, uuids
from ladder.probe import probe

with clear_errors():
    device = here(snakemake.wildcards.device)
    with exclusive(uuids(device)) as uuid:
        found = probe(device, uuid, Path(snakemake.input.support))
    Path(snakemake.output.environment).write_text(json.dumps(found, indent=1) + "\n")
