"""Measure the finalists of the sweep again, all kernels side by side."""

import csv
from pathlib import Path

from ladder import campaign, sources
from ladder.confirm import Job, run
from ladder.environment import ROOT, check_alike, fingerprint, here
from ladder.jobs import job, read_environment
from ladder.kernels import discover
from ladder.lock import uuids
from ladder.records import journal_of

with job(snakemake.log[0]):
    plan = campaign.load(snakemake.config, "the campaign", discover(ROOT))
    device = here(plan, snakemake.wildcards.device)
    binaries = {}
    for path in map(Path, snakemake.input.resources):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                name = row["kernel"], row["element_type"], row["configuration"]
                binaries[name] = row | {"binary": str(path.parent / row["binary"])}
    output = Path(snakemake.output.confirmed)
    environment = read_environment(snakemake.input.environment)
    check_alike(fingerprint(device), environment["fingerprint"])
    task = Job(
        device=device.slug,
        kind=device.kind,
        plan=plan.confirmation(device.kind),
        samples=list(map(Path, snakemake.input.samples)),
        binaries=binaries,
        support=Path(snakemake.input.support),
        fingerprint=fingerprint(device),
        code=sources.digest("confirm", "worker"),
        swept=sources.digest("measure", "worker"),
        environment=environment,
        refill_us=environment["attributes"].get("cache_bytes", 0) / environment["peaks"]["copy_tb_s"] * 1e-6,
    )
    run(task, journal_of(output), output, uuids(device))
