"""Count what the main loop of each rung's best configuration spends its instructions on, for the pages in docs/ladder/.

    .venv/bin/python studies/count_loops.py      a minute; needs no GPU

nvcc of the lock compiles the configurations that were the fastest at 4096 in the featured run. `ladder.compiling.issue_model.mix`
counts in the machine code. Writes results/published/main-loops.json; then run `ladder story`.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from ladder.claims.study import command_line
from ladder.compiling import issue_model
from ladder.compiling.compile import compile_kernel
from ladder.compiling.toolchain import compiler_version
from ladder.core.files import ROOT, write_whole
from ladder.model.kernel import Configuration
from ladder.publishing import main_loops
from ladder.publishing.page_data import Story


def count(story: Story) -> dict[str, dict[str, int]]:
    """Return the counts by kernel and configuration. The work of kernels on tensor cores is no FFMA, so they have none."""
    found = {}
    for name in story.ladder("cuda"):
        kernel, row = story.kernels[name], story.best(name, "4096")
        if row is None or kernel.architecture:
            continue
        configuration = Configuration.of(row["element_type"], row["configuration"])
        with TemporaryDirectory() as folder:
            (made,) = compile_kernel(kernel, [(configuration, "")], issue_model.MODELLED, Path(folder), 1)
            found[f"{name} {row['configuration']}"] = issue_model.mix((Path(folder) / made.binary).read_bytes())
    return found


def main() -> None:
    """Count and write."""
    command_line(__doc__).parse_args()
    tool = {"compiler": f"nvcc {compiler_version('nvcc')}", "counted_by": "ladder.compiling.issue_model.mix"}
    text = json.dumps(tool | {"architecture": issue_model.MODELLED, "loops": count(Story(ROOT))}, indent=1)
    write_whole(ROOT / main_loops.COUNTS, f"{text}\n".encode())


if __name__ == "__main__":
    main()
