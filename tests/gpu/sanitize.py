"""Launch CUDA rungs on small problems: what compute-sanitizer watches (see test_sanitizer.py).

compute-sanitizer --tool racecheck python tests/gpu/sanitize.py FOLDER SHARE

FOLDER keeps what is compiled. SHARE, `2/8`, is every eighth kernel from the third on. With
--compile nothing is launched, so that compilers are not watched too.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from ladder.compiling.compile import Resource, compile_kernel, compile_support
from ladder.core.files import write_whole
from ladder.devices import cuda_operands, operands
from ladder.devices.detect import detect_gpus
from ladder.devices.lock import uuids
from ladder.devices.operands import exactly
from ladder.measuring.gauntlet import describe, problems
from ladder.measuring.verify import judge
from ladder.measuring.worker import opener
from ladder.model import kernel_file
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {(2, 3, 5), (63, 65, 129), (97, 101, 103), (128, 128, 128), (130, 259, 516)}
"""M, N, K of those of the gauntlet's problems that are launched: whole tiles and edges, several of
each.
"""
AT_MOST = 20
"""Configurations of a kernel: a tool takes seconds for each."""


def chosen(kernel: Kernel) -> list[Configuration]:
    """Return the first and the last configuration in each layout and for batches, or of what copies asynchronously,
    where each waits elsewhere, at most AT_MOST of all.
    """
    waits = bool(kernel.compute_capability or kernel.architecture)
    taken = []
    forms = list(product(kernel.layouts, {False, kernel.batch}))
    for layout, batched in forms:
        types = kernel.element_types[:1]
        every = kernel.expand({}, types, layouts=[layout], batched=[batched])
        legal = [configuration for configuration, objection in every if not objection]
        step = -(-len(legal) * len(forms) // AT_MOST)
        taken += legal[::step] if waits else dict.fromkeys([legal[0], legal[-1]])
    return taken


def waves(kernel: Kernel, configuration: Configuration, sm_count: int) -> list[Problem]:
    """For what goes by the number of SMs, or has clusters: more tiles than SMs, the last ones
    short, K no longer than it takes for shares of the last wave to end within tiles.
    """
    if "sm_count" not in kernel.text and "__cluster_dims__" not in kernel.text:
        return []
    p = dict(configuration.parameters)
    rows, columns = 10 * p.get("BM", 128) - 5, (sm_count // 10 + 4) * p.get("BN", 128) - 4
    problem = Problem(rows, columns, 48, kernel.element_types[0], beta=0.5, padding="0,16,0")
    lying = replace(problem, layout=kernel.layouts[0], batch=1 + 2 * configuration.batched)
    return [exactly(lying, kernel.precision)]


def compiled(
    arch: str, folder: Path, share: str
) -> list[tuple[Kernel, Sequence[tuple[Configuration, Resource]]]]:
    """What is launched of each kernel of a share, compiled into a folder, or found there."""
    first, step = map(int, share.split("/"))
    cuda = [kernel for kernel in kernel_file.discover(ROOT).values() if kernel.kind == "cuda"]
    kernels = []
    for kernel in cuda[first::step]:
        configurations = chosen(kernel)
        asked = [(configuration, "") for configuration in configurations]
        rows = compile_kernel(kernel, asked, arch, folder / kernel.name, os.cpu_count() or 1)
        kernels.append((kernel, list(zip(configurations, rows, strict=True))))
    return kernels


def main(folder: Path, share: str, only_compile: bool) -> None:
    """Compile, launch and verify; ends with exit code 1 where a result is wrong."""
    # what memcheck sees is what leaves an allocation: nothing lies beside an operand in it
    operands.GUARD = 0
    cuda_operands.SHIFTS = 1
    gpu, wrong, launched = detect_gpus()[0], [], 0
    kernels, support = compiled(gpu.arch, folder, share), folder / "support"
    if only_compile:
        write_whole(support, compile_support("cuda", gpu.arch))  # another tool may be reading it
        return
    device = opener("cuda")(uuids(gpu)[0], support)
    made = {}
    for kernel, rows in kernels:
        small = [
            problem
            for form in product(kernel.layouts, {False, kernel.batch})
            for problem in problems(kernel.element_types[0], kernel.precision, *form)
            if (problem.m, problem.n, problem.k) in SHAPES
        ]
        for configuration, row in rows:
            if row.status != "compiled":
                continue
            binary = (folder / kernel.name / row.binary).read_bytes()
            for problem in [*small, *waves(kernel, configuration, device.names["sm_count"])]:
                if problem not in made:
                    made[problem] = device.operands(problem)
                device.use(made[problem])
                if kernel.unmet_need(configuration, {**problem.names(), **device.names}):
                    continue
                subject = f"{kernel.name} {configuration.label} on {describe(problem)}"
                print(subject, flush=True)  # what the tool says next is about this
                launch = device.kernel(kernel, configuration, binary)
                verdict = judge(device.check(launch), problem, kernel.precision)
                launched += 1
                if verdict.status != "correct":
                    wrong.append(f"{subject}: {verdict.reason}")
    device.close()
    print(f"{launched} launches, {len(wrong)} wrong {wrong[:3]}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:] == ["--compile"])
