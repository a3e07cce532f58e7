"""Launch two configurations of every CUDA rung on some of the gauntlet's problems: what compute-sanitizer watches (see test_sanitizer.py).

compute-sanitizer --tool racecheck python tests/gpu/sanitize.py
"""

import sys
import tempfile
from pathlib import Path

from ladder import devices, kernels
from ladder.compile import compile_kernel, compile_support
from ladder.devices import cuda_operands
from ladder.gauntlet import describe, problems
from ladder.lock import first_gpu
from ladder.verify import judge
from ladder.worker import open_device

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {(2, 3, 5), (63, 65, 129), (97, 101, 103), (128, 128, 128), (130, 259, 516)}
"""M, N, K of those of the gauntlet's problems that are launched: whole tiles and edges, several of each."""


def main() -> None:
    """Compile, launch and verify; ends with exit code 1 where a result is wrong."""
    # what memcheck sees is what leaves an allocation: nothing lies beside an operand in it
    devices.GUARD = 0
    cuda_operands.SHIFTS = 1
    folder, wrong, launched = Path(tempfile.mkdtemp()), [], 0
    gpu = first_gpu()
    (folder / "support").write_bytes(compile_support("cuda", gpu.arch))
    device = open_device("cuda", gpu.uuids[0], folder / "support")
    chosen = {tf32: [one for one in problems("float32", tf32) if (one.m, one.n, one.k) in SHAPES] for tf32 in (False, True)}
    made = {problem: device.operands(problem) for problem in {*chosen[False], *chosen[True]}}
    for kernel in kernels.discover(ROOT).values():
        if kernel.kind != "cuda":
            continue
        tf32 = kernel.precision == "tf32"
        legal = [(c, objection) for c, objection in kernel.expand({}, ["float32"]) if not objection]
        rows = compile_kernel(kernel, [legal[0], legal[-1]], gpu.arch, folder / kernel.name, 1)
        for (configuration, _), row in zip([legal[0], legal[-1]], rows, strict=True):
            for problem in chosen[tf32] if row.status == "compiled" else []:
                device.use(made[problem])
                if kernel.unmet_need(configuration, {**problem.names(), **device.names}):
                    continue
                found = device.kernel(kernel, configuration, (folder / kernel.name / row.binary).read_bytes())
                verdict = judge(device.check(found), problem, tf32)
                launched += 1
                if verdict.status != "correct":
                    wrong.append((kernel.name, configuration.label, describe(problem), verdict.reason))
    device.close()
    print(f"{launched} launches, {len(wrong)} wrong {wrong[:3]}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
