"""Measure every configuration of one kernel, or the baselines, on every problem."""

import csv
from pathlib import Path

from ladder import campaign, sources
from ladder.environment import ROOT, clear_errors, fingerprint, here
from ladder.kernels import discover
from ladder.measure import Job, run, uuids

with clear_errors():
    device = here(snakemake.wildcards.device)
    plan = campaign.load(snakemake.config, "the campaign", discover(ROOT))
    resources = snakemake.input.get("resources")
    rows = []
    if resources:
        with Path(resources).open(newline="") as file:
            rows = list(csv.DictReader(file))
    output = Path(snakemake.output.samples)
    job = Job(
        device=device.slug,
        kind=device.kind,
        plan=plan.plan(device.kind, snakemake.wildcards.job),
        binaries={row["slug"]: row for row in rows},
        folder=Path(resources).parent if resources else output.parent,
        support=Path(snakemake.input.support),
        fingerprint=fingerprint(device),
        code=sources.digest("measure", "worker"),
    )
    run(job, output.with_suffix(".journal"), output, uuids(device))
