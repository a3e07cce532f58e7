"""Measure every configuration of one kernel, or the baselines, on every problem."""

from pathlib import Path

from ladder.compiling.provenance import check_alike, fingerprint
from ladder.core.files import read_json
from ladder.devices.detect import here
from ladder.devices.lock import uuids
from ladder.measuring.job import Job, read_binaries
from ladder.measuring.sweep import run
from ladder.pipeline import code_digest
from ladder.pipeline.job_log import job
from ladder.storage.dataset_layout import read_environment
from ladder.storage.journal import journal_of

with job(snakemake.log[0]):
    planned = read_json(Path(snakemake.input.plan))
    device = here(**planned["machine"])
    output = Path(snakemake.output.samples)
    environment = read_environment(snakemake.input.environment)
    check_alike(
        fingerprint(device),
        environment["fingerprint"],
        f"{snakemake.input.environment}: fingerprint",
    )
    task = Job(
        device=device.slug,
        kind=device.kind,
        plan=planned["plan"],
        binaries=read_binaries(map(Path, snakemake.input.resources)),
        support=Path(snakemake.input.support),
        fingerprint=fingerprint(device),
        code=code_digest.digest("measuring.sweep", "measuring.worker"),
        environment=environment,
    )
    run(task, journal_of(output), output, uuids(device))
