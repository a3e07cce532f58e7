"""Compile the configurations of one kernel for one architecture."""

import csv
import io
import sys
from dataclasses import asdict, fields
from pathlib import Path

from ladder.compiling.compile import Resource, compile_kernel
from ladder.core import places
from ladder.core.files import read_json, write_whole
from ladder.devices.detect import check_native
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import parse
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    arch = snakemake.wildcards.arch
    check_native(arch)
    plan = read_json(Path(snakemake.input.plan))
    kernel = parse(places.find(plan["path"]))
    configurations = [
        (Configuration.of(planned["element_type"], planned["label"]), planned["objection"])
        for planned in plan["configurations"]
    ]
    output = Path(snakemake.output.resources)
    rows = compile_kernel(kernel, configurations, arch, output.parent, snakemake.threads)
    table = io.StringIO()
    writer = csv.DictWriter(table, [field.name for field in fields(Resource)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_whole(output, table.getvalue().encode())
    # a typo gives all configurations the same reason
    refused = {row.reason: row for row in reversed(rows) if row.status == "compile_error"}
    for reason, row in refused.items():
        text = f"{kernel.id} {row.configuration} for {arch} does not compile:\n{reason}"
        print(text, file=sys.stderr)
