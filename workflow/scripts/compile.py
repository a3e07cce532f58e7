"""Compile the configurations of one kernel for one architecture."""

import csv
import io
import sys
from dataclasses import asdict, fields
from pathlib import Path

from ladder.compiling.compile import Resource, compile_kernel
from ladder.core.files import ROOT, read_json, write_whole
from ladder.devices.detect import check_native
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import parse, path_of
from ladder.pipeline.job_log import job

with job(snakemake.log[0]):
    arch = snakemake.wildcards.arch
    check_native(arch)
    plan = read_json(Path(snakemake.input.plan))
    kernel = parse(path_of(ROOT, *plan["kernel"].split("/")))
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
    by_reason = {}
    for row in rows:
        if row.status == "compile_error":
            by_reason.setdefault(row.reason, []).append(row.configuration)
    # a typo gives all configurations the same reason
    for reason, (first, *others) in by_reason.items():
        more = f" and {len(others)} more" if others else ""
        print(f"{kernel.id} {first}{more} for {arch} does not compile:\n{reason}", file=sys.stderr)
