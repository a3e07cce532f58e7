"""Read the hardware counters of the best configuration of every kernel with Nsight Compute."""

from pathlib import Path

from ladder.compiling.provenance import project_state
from ladder.devices.detect import here
from ladder.devices.lock import exclusive, uuids
from ladder.measuring import counters
from ladder.model.kernel_file import parse
from ladder.pipeline.job_log import job
from ladder.storage import csv_files

with job(snakemake.log[0]):
    device = here(**snakemake.params.machine)
    support = Path(snakemake.input.support)
    best, resources = (
        csv_files.read_csv(Path(snakemake.input[name])) for name in ("best", "resources")
    )
    kernels = {kernel.name: kernel for kernel in map(parse, map(Path, snakemake.input.kernels))}
    with exclusive(uuids(device)) as (uuid, _):
        origin = {"device": snakemake.wildcards.device, "uuid": uuid, **project_state()}
        table = counters.count(
            counters.tasks(best, resources, kernels, support.parent, support, origin)
        )
    csv_files.write_csv(table, Path(snakemake.output.counters))
