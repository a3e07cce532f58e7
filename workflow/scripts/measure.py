"""Measure configurations of several kernels, or baselines, on every problem."""

from pathlib import Path

from ladder.measuring.job import Job, prepared
from ladder.measuring.sweep import run
from ladder.pipeline.job_log import job
from ladder.storage.journal import journals_of

with job(snakemake.log[0]):
    output = Path(snakemake.output.samples)
    task, uuids = prepared(Job, snakemake.input, snakemake.params.code)
    run(task, journals_of(output), output, uuids)
