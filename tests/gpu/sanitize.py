"""Launch two configurations of every CUDA rung on small problems: what compute-sanitizer watches (see test_sanitizer.py).

compute-sanitizer --tool racecheck python tests/gpu/sanitize.py
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "workflow"))

from ladder import environment, kernels  # noqa: E402
from ladder.campaign import Problem  # noqa: E402
from ladder.compile import compile_kernel, compile_support  # noqa: E402
from ladder.verify import judge  # noqa: E402
from ladder.worker import open_device  # noqa: E402


def main() -> None:
    """Compile, launch and verify; ends with exit code 1 where a result is wrong."""
    folder, wrong, launched = Path(tempfile.mkdtemp()), [], 0
    gpu = environment.detect_gpus()[0]
    (folder / "support").write_bytes(compile_support("cuda", gpu.arch))
    device = open_device("cuda", gpu.uuids[0], folder / "support")
    for kernel in kernels.discover(ROOT).values():
        if kernel.kind != "cuda":
            continue
        legal = [(c, objection) for c, objection in kernel.expand({}, ["float32"]) if not objection]
        chosen = [legal[0], legal[-1]]
        rows = compile_kernel(kernel, chosen, gpu.arch, folder / kernel.name, 1)
        for (configuration, _), row in zip(chosen, rows, strict=True):
            for problem in (Problem(260, 132, 36, padding=4, beta=0.5), Problem(131, 67, 37, padding=1), Problem(1, 133, 3)):
                device.problem(problem)
                verdict = judge(
                    device.check(device.kernel(kernel, configuration, (folder / kernel.name / row.binary).read_bytes())), problem
                )
                launched += 1
                if verdict.status != "correct":
                    wrong.append((kernel.name, configuration.label, problem.label, verdict.reason))
    device.close()
    print(f"{launched} launches, {len(wrong)} wrong {wrong[:3]}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
