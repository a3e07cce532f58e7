"""Describe a device and measure its peaks."""

import json
from contextlib import closing
from pathlib import Path

from ladder.core.files import write_whole
from ladder.devices.detect import here
from ladder.devices.lock import exclusive, uuids
from ladder.measuring.probe import probe_once
from ladder.measuring.supervisor import Child
from ladder.pipeline.job_log import job
from ladder.storage.journal import Journal, journal_of

with job(snakemake.log[0]):
    device = here(**snakemake.params.machine)
    output = Path(snakemake.output.environment)
    journal = Journal(journal_of(output))
    with (
        closing(journal),
        exclusive(uuids(device)) as (uuid, lock),
        closing(Child(device.kind, uuid, Path(snakemake.input.support), lock)) as child,
    ):
        environment = probe_once(device, child, journal, snakemake.params.code)
    write_whole(output, (json.dumps(environment, indent=1) + "\n").encode())
