"""Count what the main loop of each rung's best configuration spends its instructions on, for the pages in docs/ladder/.

    .venv/bin/python -m book.count_loops      three minutes; needs no GPU

nvcc of the lock compiles the configurations that were the fastest at 4096 in the featured run, or at their `made_for`.
`ladder.compiling.issue_model` counts in the machine code. Writes results/published/main-loops.json; then run `python -m book`.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from ladder.compiling import issue_model
from ladder.compiling.compile import compile_kernel
from ladder.compiling.toolchain import compiler_version
from ladder.core.files import write_whole
from ladder.core.places import HOME
from ladder.model.kernel import Configuration, Kernel

from book import loops
from book.data import Story


def count(story: Story) -> dict[str, dict[str, int]]:
    """Return the counts by kernel and configuration. Rungs 20 and 21 have none: their work on
    tensor cores is no FFMA.
    """
    chosen = []
    halves = story.ladder("cuda", in_float32=False)
    for name in reversed([*story.ladder("cuda"), *halves]):  # the last take the longest
        kernel, row = story.kernels[name], story.best(name, story.kernels[name].made_for or "4096")
        if row is not None and (name in halves or not kernel.architecture):
            chosen.append((kernel, Configuration.of(row["element_type"], row["configuration"])))

    def count_one(kernel: Kernel, configuration: Configuration) -> dict[str, int]:
        mix = issue_model.mix_on_tensor_cores if kernel.name in halves else issue_model.mix
        with TemporaryDirectory() as folder:
            configurations = [(configuration, "")]
            (made,) = compile_kernel(kernel, configurations, issue_model.MODELED, Path(folder), 1)
            return mix((Path(folder) / made.binary).read_bytes())

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for nvcc
        counts = list(pool.map(count_one, *zip(*chosen, strict=True)))
    names = [f"{kernel.name} {configuration.label}" for kernel, configuration in chosen]
    return dict(sorted(zip(names, counts, strict=True)))


def main() -> None:
    """Count and write."""
    tool = {
        "compiler": f"nvcc {compiler_version('nvcc')}",
        "counted_by": "ladder.compiling.issue_model",
    }
    text = json.dumps(
        tool | {"architecture": issue_model.MODELED, "loops": count(Story(HOME))}, indent=1
    )
    write_whole(HOME / loops.COUNTS, f"{text}\n".encode())


if __name__ == "__main__":
    main()
