"""Measure the finalists of the sweep again, all kernels side by side."""

from pathlib import Path

from ladder.compiling.provenance import check_alike, fingerprint
from ladder.core.files import read_json
from ladder.devices.detect import here
from ladder.devices.lock import uuids
from ladder.measuring.confirmation import ConfirmationJob, run
from ladder.measuring.job import read_binaries
from ladder.pipeline import code_digest
from ladder.pipeline.job_log import job
from ladder.storage.dataset_layout import read_environment
from ladder.storage.journal import journal_of

with job(snakemake.log[0]):
    planned = read_json(Path(snakemake.input.plan))
    device = here(**planned["machine"])
    output = Path(snakemake.output.confirmed)
    environment = read_environment(snakemake.input.environment)
    check_alike(
        fingerprint(device),
        environment["fingerprint"],
        f"{snakemake.input.environment}: fingerprint",
    )
    task = ConfirmationJob(
        device=device.slug,
        kind=device.kind,
        plan=planned["plan"],
        samples=list(map(Path, snakemake.input.samples)),
        binaries=read_binaries(map(Path, snakemake.input.resources)),
        support=Path(snakemake.input.support),
        fingerprint=fingerprint(device),
        code=code_digest.digest("measuring.confirmation", "measuring.worker"),
        swept=code_digest.digest("measuring.sweep", "measuring.worker"),
        environment=environment,
        refill_us=environment["attributes"].get("cache_bytes", 0)
        / environment["peaks"]["copy_tb_s"]
        * 1e-6,
    )
    run(task, journal_of(output), output, uuids(device))
