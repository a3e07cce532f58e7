"""Hold a dataset against the claims."""

from pathlib import Path

from ladder import claims, judged
from ladder.environment import ROOT
from ladder.jobs import job
from ladder.targets import CLAIMED_OF, REDRAWN

with job(snakemake.log[0]):
    dataset, device = snakemake.wildcards.dataset, snakemake.wildcards.device
    paths = {name: Path(snakemake.input[name]) for name in CLAIMED_OF}
    name = device if dataset == REDRAWN else f"results/{dataset}/{device}"
    data = claims.of_tables(paths, Path(snakemake.input.environment), name)
    judged.write(judged.held_against(ROOT, [data]), Path(snakemake.output[0]))
