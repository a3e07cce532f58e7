"""`ladder new` and `ladder try` in the test's own process, in a folder that has only the kernels
that the test puts there.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import simulated
from inprocess import InProcess
from ladder.cli import new_kernel, trial
from ladder.cli.main import main
from ladder.compiling import compile, compilers
from ladder.core import places, yaml_schema
from ladder.devices.cpu import Cpu
from ladder.measuring import session, supervisor, worker
from ladder.measuring import trial as measuring_trial
from planted import HOME, Project

INTERVAL = r"[\d.e+-]+(?: ± [\d.]+| \(interval not known\)|(?= ))"
SINCE = "since the last correct try: "
HEADER = (
    "/*---\ntitle: mine\nidea: planted by a test\nblock: [1]\ngrid: [1]\n{}---*/\n// python: {}\n"
)
PLAIN = """#include <stddef.h>
void gemm(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb,
          T beta, T *C, int ldc) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      T sum = 0;
      for (int k = 0; k < K; ++k) sum += A[(size_t)i * lda + k] * B[(size_t)k * ldb + j];
      const T old = beta == 0 ? 0 : beta * C[(size_t)i * ldc + j];
      C[(size_t)i * ldc + j] = alpha * sum + old;
    }
}
"""
"""A correct kernel in C without a header."""


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def ladder(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [project.python, "-m", "ladder", *arguments]
    return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False)


class SimulatedCpu(simulated.Gpu):
    """A simulated device that is opened as the CPU."""

    kind = "cpu"
    watch = Cpu.watch

    def describe(self) -> dict[str, Any]:
        return {"cores": 1, "memory_bytes": 1 << 30}


class Trials:
    """A folder `root` with kernels and results. `ladder` runs a command there and returns what it
    printed, errors last.
    """

    def __init__(self, root: Path, monkeypatch: Any, capsys: Any) -> None:
        self.root, self.capsys, self.kept = root, capsys, root / "results" / "try"
        for kind in ("cuda", "cpu"):
            (root / "kernels" / kind).mkdir(parents=True)
        (root / "envs").symlink_to(HOME / "envs")
        monkeypatch.setattr(new_kernel, "STARTS", new_kernel.STARTS)  # of the checkout
        monkeypatch.setattr(places, "HOME", root)
        monkeypatch.chdir(root)

    def ladder(self, *arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
            sys.exit(0)
        done = self.capsys.readouterr()
        assert ended.value.code == code, done.out + done.err
        return str(done.out + done.err)

    def history(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.kept / "history.jsonl").read_text().splitlines()]

    def files(self) -> set[str]:
        """What is kept of the last correct CUDA kernel."""
        return {path.name for path in (self.kept / "cuda").iterdir()}

    def write(self, does: str, header: str = "", name: str = "mine", kind: str = "cuda") -> str:
        """Write a kernel for a simulated device, with what a launch does; returns its path as the
        command takes it.
        """
        path = self.root / "kernels" / kind / f"{name}{trial.SUFFIXES[kind][0]}"
        path.write_text(
            HEADER.format(header, does)
            if kind == "cuda"
            else HEADER.format("", does).replace("block: [1]\ngrid: [1]\n", "")
        )
        return str(path.relative_to(self.root))

    def try_(self, does: str, *arguments: str, header: str = "", code: int = 0) -> str:
        """Write the CUDA kernel `mine`, and try it on a small problem. What is kept of it has the
        published form.
        """
        sizes = [] if {"--size", "--problem"} & set(arguments) else ["--size", "32"]
        output = self.ladder("try", self.write(does, header), *sizes, *arguments, code=code)
        if (self.kept / "history.jsonl").exists():
            yaml_schema.check(self.history()[-1], "verdict", "a verdict")
        return output


def stay_in_process(monkeypatch: Any) -> None:
    """Compile, probe and work in this process, with the same seed in each run; a sample is one
    launch, however short.
    """
    monkeypatch.setattr(measuring_trial, "LIMITS", replace(measuring_trial.LIMITS, sample_us=0))
    # an interval of 95 % misses the truth in one run of twenty
    monkeypatch.setattr(measuring_trial, "draw_seed", lambda: 0)
    for module in (session, supervisor):
        monkeypatch.setattr(module, "Child", InProcess)
    monkeypatch.setattr(
        trial, "compile_kernel", lambda *given: compile.compile_kernel(*given[:-1], 1)
    )


def simulate_cpu(monkeypatch: Any) -> None:
    """Put a simulated device in place of the CPU too, with what is compiled for it."""
    monkeypatch.setitem(compilers.COMPILERS, "cc", lambda source, *_: simulated.compile(source))
    monkeypatch.setattr(
        worker, "opener", lambda kind, library: lambda uuid, support: SimulatedCpu("GPU-1")
    )
