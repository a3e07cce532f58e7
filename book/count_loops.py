"""Count what the main loop of each rung's best configuration spends its instructions on, for the pages in docs/ladder/.

    .venv/bin/python -m book.count_loops      needs no GPU; three minutes if all have changed

nvcc of the lock compiles the configurations that were the fastest at 4096 in the featured run, or at their `made_for`.
`ladder.compiling.issue_model` counts in the machine code. Writes results/published/main-loops.json; then run `python -m book`.
"""

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ladder.compiling import issue_model
from ladder.compiling.compile import compile_kernel
from ladder.compiling.toolchain import FLAGS, compiler_version
from ladder.core.files import digest, read_json, write_whole
from ladder.core.places import HOME
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel import code_digest as kernel_digest
from ladder.pipeline import code_digest

from book import loops
from book.data import Story


def count(story: Story, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts by kernel and configuration, and what each was made of.

    What `known`, an earlier result, has of the same code is taken from there. Rungs 20 and 21 have
    no counts: their work on tensor cores is no FFMA.
    """
    tools = code_digest.digest("compiling.issue_model"), FLAGS["nvcc"], compiler_version("nvcc")
    halves = story.ladder("cuda", in_float32=False)

    def count_one(kernel: Kernel, row: Mapping[str, Any] | None) -> Any:
        if row is None or (kernel.name not in halves and kernel.architecture):
            return None
        configuration = Configuration.of(row["element_type"], row["configuration"])
        label = f"{kernel.name} {configuration.label}"
        made_of = digest([tools, kernel_digest(kernel.source(configuration), kernel.includes)])
        if known["made_of"].get(label) == made_of:
            return label, made_of, known["loops"][label]
        mix = issue_model.mix_on_tensor_cores if kernel.name in halves else issue_model.mix
        with TemporaryDirectory() as folder:
            configurations = [(configuration, "")]
            (made,) = compile_kernel(kernel, configurations, issue_model.MODELED, Path(folder), 1)
            return label, made_of, mix((Path(folder) / made.binary).read_bytes())

    kernels = [story.kernels[name] for name in reversed([*story.ladder("cuda"), *halves])]
    chosen = [story.best(kernel.name, kernel.made_for or "4096") for kernel in kernels]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for nvcc
        # the last take the longest
        rows = sorted(filter(None, pool.map(count_one, kernels, chosen)))
    return {
        "loops": {label: counts for label, _, counts in rows},
        "made_of": {label: made_of for label, made_of, _ in rows},
    }


def main() -> None:
    """Count and write."""
    made = {
        "compiler": f"nvcc {compiler_version('nvcc')}",
        "counted_by": "ladder.compiling.issue_model",
        "architecture": issue_model.MODELED,
        **count(Story(HOME), read_json(HOME / loops.COUNTS)),
    }
    text = json.dumps(made, indent=1)
    write_whole(HOME / loops.COUNTS, f"{text}\n".encode())


if __name__ == "__main__":
    main()
