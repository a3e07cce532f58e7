"""Compare a dataset with the claims."""

from pathlib import Path

from ladder.claims import evidence, judge
from ladder.core.files import ROOT
from ladder.pipeline.job_log import job
from ladder.storage.dataset_layout import CLAIMED_OF, REDRAWN

with job(snakemake.log[0]):
    dataset, device = snakemake.wildcards.dataset, snakemake.wildcards.device
    paths = {name: Path(snakemake.input[name]) for name in CLAIMED_OF}
    name = device if dataset == REDRAWN else f"results/{dataset}/{device}"
    data = evidence.of_tables(paths, Path(snakemake.input.environment), name)
    judge.write(judge.held_against(ROOT, [data]), Path(snakemake.output[0]))
