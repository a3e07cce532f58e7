"""Describe a device and measure its peaks."""

import json
from pathlib import Path

from ladder.core.files import ROOT, write_whole
from ladder.devices.detect import here
from ladder.devices.lock import exclusive, uuids
from ladder.measuring.probe import probe
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    data = snakemake.config["campaigns"][snakemake.wildcards.dataset]
    device = here(campaign_file.load(data, "the campaign", discover(ROOT)), snakemake.wildcards.device)
    with exclusive(uuids(device)) as (uuid, _):
        environment = probe(device, uuid, Path(snakemake.input.support))
    output = Path(snakemake.output.environment)
    write_whole(output, (json.dumps(environment, indent=1) + "\n").encode())
