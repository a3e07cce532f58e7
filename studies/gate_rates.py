"""How often `ladder gate` errs: on unchanged code, and on kernels made slower by a known share.

    .venv/bin/python studies/gate_rates.py [--gates 20] [--kernels cpu/02_reordered_ikj cpu/03_blocked]

Each gate compares a commit of a made-up repository with its working tree, in which the kernels are the same, or end as much later as
so many per cent of the time that they took. In both they look at the clock. The machine must be idle.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import answer
from answer import command_line, first_gpu
from ladder.core.places import HOME
from ladder.devices.detect import detect_cpu
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import discover
from power import slow_down

PERCENT = (0, 2, 5)
PROBLEMS = """campaign: rates
problems:
  cuda: [{square: [1024, 2048, 4096]}]
  cpu: [{square: [128, 256]}, [32, 512, 512]]
"""
CLOCK = """#include <time.h>
static long long clock64(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1000000000LL * now.tv_sec + now.tv_nsec;
}

void gemm("""
"""What a kernel in C has in place of CUDA's `clock64`."""
KEPT = ("kernel", "problem", "result", "verdict", "reason", "ratio", "control")


def slowed(kernel: Kernel, percent: int) -> str:
    """The text of a kernel's file that ends so many per cent later; at 0 it looks at the clock too,
    so that nothing else differs.
    """
    text = kernel.text
    if kernel.kind == "cpu":
        text = text.replace("\nvoid gemm(", f"\n{CLOCK}", 1)
    return slow_down(text, percent)


def write(folder: Path, kernels: Sequence[Kernel], percent: int) -> None:
    """Write kernels, slowed by so many per cent, to a folder as they lie in the project."""
    for kernel in kernels:
        path = folder / kernel.path.relative_to(HOME)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(slowed(kernel, percent))


def gate(folder: Path, kernels: Sequence[str]) -> dict[str, Any]:
    """Run a gate of the folder's working tree; returns what it found."""
    command = [sys.executable, "-m", "ladder", "gate", "HEAD", "--problems", "rates.yaml"]
    command += ["--json", "-", "--kernels", *kernels]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    report = json.loads(done.stdout)
    rows = [
        {name: row[name] for name in KEPT} | {"processes": len(row["times"])}
        for row in report["rows"]
    ]
    return {"result": report["result"], "seconds": report["seconds"], "rows": rows}


def short(measured: Mapping[Any, Any]) -> str:
    """The answer in a few words."""
    words = []
    for percent, gates in measured.items():
        red = sum(each["result"] == "slower" for each in gates)
        code = f"of code {percent} % slower" if int(percent) else "gates of unchanged code"
        words.append(f"{red} of {len(gates)} {code}")
    return "Red: " + ", ".join(words)


def long(measured: Mapping[Any, Any]) -> str:
    """The answer in words."""
    words = []
    for percent, gates in measured.items():
        rows = [row for each in gates for row in each["rows"]]
        what = f"slowed by {percent} %" if int(percent) else "of unchanged code"
        words.append(
            f"{len(gates)} gates {what}: {counted(gates, 'result')}, with {counted(rows, 'verdict')} "
            f"of {len(rows)} comparisons"
        )
    return "; ".join(words)


def counted(found: Sequence[Mapping[str, Any]], key: str) -> str:
    """How many have each value of a key, in words."""
    return ", ".join(f"{n} {value}" for value, n in Counter(each[key] for each in found).items())


def main() -> None:
    """Run the gates, and write what they found."""
    parser = command_line(__doc__)
    parser.add_argument("--gates", type=int, default=20, help="of each change (20)")
    parser.add_argument("--percent", type=int, nargs="+", default=PERCENT)
    parser.add_argument("--kernels", nargs="+", default=["cpu/02_reordered_ikj", "cpu/03_blocked"])
    given = parser.parse_args()
    kernels = [discover(HOME)[id] for id in given.kernels]
    gates: dict[int, list[dict[str, Any]]] = {percent: [] for percent in given.percent}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(HOME / "kernels" / "include", folder / "kernels" / "include")
        (folder / "rates.yaml").write_text(PROBLEMS)
        write(folder, kernels, 0)
        for words in ("init --quiet", "add --all", "commit --quiet --message=unchanged"):
            own = ["-c", "user.name=study", "-c", "user.email=study@localhost"]
            subprocess.run(["git", *own, *words.split()], cwd=folder, check=True)
        device = detect_cpu() if kernels[0].kind == "cpu" else first_gpu()
        for _ in range(given.gates):
            for percent, of in gates.items():
                write(folder, kernels, percent)
                of.append(gate(folder, given.kernels))
            answer.write(  # each time, so that a run that is stopped keeps what it has
                "gate_rates",
                "How often is `ladder gate` red on unchanged code, and on slower code?",
                short(gates),
                long(gates),
                device,
                gates,
                kernels,
            )


if __name__ == "__main__":
    main()
