"""Measure every configuration of one kernel, or the baselines, on every problem."""

import csv
from pathlib import Path

from ladder import campaign, sources
from ladder.environment import ROOT, check_alike, fingerprint, here
from ladder.jobs import job, read_environment
from ladder.kernels import discover
from ladder.lock import uuids
from ladder.measure import Job, run
from ladder.records import journal_of

with job(snakemake.log[0]):
    plan = campaign.load(snakemake.config, "the campaign", discover(ROOT))
    device = here(plan, snakemake.wildcards.device)
    resources = snakemake.input.get("resources")
    rows = []
    if resources:
        with Path(resources).open(newline="") as file:
            rows = list(csv.DictReader(file))
    output = Path(snakemake.output.samples)
    environment = read_environment(snakemake.input.environment)
    check_alike(fingerprint(device), environment["fingerprint"])
    task = Job(
        device=device.slug,
        kind=device.kind,
        plan=plan.plan(device.kind, snakemake.wildcards.job),
        binaries={row["slug"]: row for row in rows},
        folder=Path(resources).parent if resources else output.parent,
        support=Path(snakemake.input.support),
        fingerprint=fingerprint(device),
        code=sources.digest("measure", "worker"),
        environment=environment,
    )
    run(task, journal_of(output), output, uuids(device))
