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
from ladder.storage.journal import journals_of, opened

with job(snakemake.log[0]):
    device = here(**snakemake.params.machine)
    output = Path(snakemake.output.environment)
    with (
        opened(journals_of(output), [output.stem]) as journals,
        exclusive(uuids(device)) as (uuid, lock),
        closing(Child(device.kind, uuid, lock, device.library_folder)) as child,
    ):
        child.open(Path(snakemake.input.support))
        environment = probe_once(device, child, journals[output.stem], snakemake.params.code)
    write_whole(output, (json.dumps(environment, indent=1) + "\n").encode())
