"""Describe a device and measure its peaks."""

import json
from pathlib import Path

from ladder import campaign
from ladder.environment import ROOT, here
from ladder.jobs import job, write_whole
from ladder.kernels import discover
from ladder.lock import exclusive, uuids
from ladder.probe import probe

with job(snakemake.log[0]):
    device = here(campaign.load(snakemake.config, "the campaign", discover(ROOT)), snakemake.wildcards.device)
    with exclusive(uuids(device)) as (uuid, _):
        found = probe(device, uuid, Path(snakemake.input.support))
    output = Path(snakemake.output.environment)
    write_whole(output, (json.dumps(found, indent=1) + "\n").encode())
