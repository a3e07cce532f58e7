"""Measure the finalists of the sweep again, all kernels side by side."""

from pathlib import Path

from ladder.measuring.confirmation import ConfirmationJob, run
from ladder.measuring.job import prepared
from ladder.pipeline import code_digest
from ladder.pipeline.job_log import job
from ladder.storage.journal import journals_of

with job(snakemake.log[0]):
    output = Path(snakemake.output.confirmed)
    task, uuids = prepared(ConfirmationJob, snakemake.input, snakemake.params.code)
    task.samples = list(map(Path, snakemake.input.samples))
    task.swept = code_digest.digest("measuring.sweep", "measuring.worker")
    attributes, peaks = task.environment["attributes"], task.environment["peaks"]
    task.refill_us = attributes.get("cache_bytes", 0) / peaks["copy_tb_s"] * 1e-6
    run(task, journals_of(output), output, uuids)
