"""Count with Nsight Compute what the best configuration of every kernel does."""

from pathlib import Path

from ladder import campaign, counters, tables
from ladder.environment import ROOT, here, project_state
from ladder.jobs import job
from ladder.kernels import discover, parse
from ladder.lock import exclusive, uuids

with job(snakemake.log[0]):
    device = here(campaign.load(snakemake.config, "the campaign", discover(ROOT)), snakemake.wildcards.device)
    support = Path(snakemake.input.support)
    best, resources = (tables.read_csv(Path(snakemake.input[name])) for name in ("best", "resources"))
    kernels = {kernel.name: kernel for kernel in map(parse, map(Path, snakemake.input.kernels))}
    with exclusive(uuids(device)) as (uuid, _):
        origin = {"device": snakemake.wildcards.device, "uuid": uuid, **project_state()}
        table = counters.count(counters.tasks(best, resources, kernels, support.parent, support, origin))
    tables.write_csv(table, Path(snakemake.output.counters))
