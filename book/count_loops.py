"""Count what the main loop of each rung's best configuration spends its instructions on, for the pages in docs/ladder/.

    .venv/bin/python -m book.count_loops      three minutes; needs no GPU

nvcc of the lock compiles the configurations that were the fastest at 4096 in the featured run, or at their `made_for`.
`ladder.compiling.issue_model` counts in the machine code. Writes results/published/main-loops.json; then run `python -m book`.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from ladder.compiling import issue_model
from ladder.compiling.compile import compile_kernel
from ladder.compiling.toolchain import compiler_version
from ladder.core.files import ROOT, write_whole
from ladder.model.kernel import Configuration

from book import loops
from book.data import Story


def count(story: Story) -> dict[str, dict[str, int]]:
    """Return the counts by kernel and configuration. Rungs 20 and 21 have none: their work on
    tensor cores is no FFMA.
    """
    counts = {}
    halves = story.ladder("cuda", in_float32=False)
    for name in [*story.ladder("cuda"), *halves]:
        kernel, row = story.kernels[name], story.best(name, story.kernels[name].made_for or "4096")
        if row is None or (kernel.architecture and name not in halves):
            continue
        mix = issue_model.mix_on_tensor_cores if name in halves else issue_model.mix
        configuration = Configuration.of(row["element_type"], row["configuration"])
        with TemporaryDirectory() as folder:
            (made,) = compile_kernel(
                kernel, [(configuration, "")], issue_model.MODELLED, Path(folder), 1
            )
            counts[f"{name} {row['configuration']}"] = mix(
                (Path(folder) / made.binary).read_bytes()
            )
    return counts


def main() -> None:
    """Count and write."""
    tool = {
        "compiler": f"nvcc {compiler_version('nvcc')}",
        "counted_by": "ladder.compiling.issue_model",
    }
    text = json.dumps(
        tool | {"architecture": issue_model.MODELLED, "loops": count(Story(ROOT))}, indent=1
    )
    write_whole(ROOT / loops.COUNTS, f"{text}\n".encode())


if __name__ == "__main__":
    main()
