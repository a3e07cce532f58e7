"""A copy of the project with an environment of its own, to run Snakemake in, and kernels to plant there."""

import json
import os
import shutil
import site
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pandas as pd
from ladder.devices.simulation import VARIABLE

ROOT = Path(__file__).resolve().parents[1]


SIMULATED = ROOT / "tests" / "support" / "simulated.py"
"""The GPUs that are not there; what a launch does there is what the kernel's file says behind `// python: `, else the right thing."""


def interpreter(folder: Path, *first: Path | str) -> str:
    """Python of an environment made in `folder`; returns its path.

    There paths come before all that is installed in this process's, and `import` statements are run at each start.
    """
    venv.create(folder, symlinks=True)
    installed = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (packages / "first.pth").write_text("".join(f"{line}\n" for line in first) + installed)
    return str(folder / "bin" / "python")


class Project:
    """A copy of the project in a folder of its own, with its commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "Snakefile", folder)
        for name in ("workflow", "kernels", "config", "profiles"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        self.python = interpreter(folder / ".venv", folder / "workflow")

    def snakemake(self, *arguments: str, cores: int = 1, timeout: float = 3600) -> subprocess.CompletedProcess[str]:
        """Run Snakemake; output and errors both in `stdout`."""
        return subprocess.run(
            [self.python, "-m", "snakemake", "--cores", str(cores), *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env=os.environ | {"NO_COLOR": "1"},
            check=False,
        )

    def ok(self, *arguments: str, cores: int = 1, timeout: float = 3600, code: int = 0) -> str:
        """Run Snakemake, which must end with the exit code; returns what it printed."""
        done = self.snakemake(*arguments, cores=cores, timeout=timeout)
        assert done.returncode == code, done.stdout[-8000:]
        return done.stdout

    def write(self, path: str, text: str) -> Path:
        """Write a file of the project."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def campaign(self, text: str) -> str:
        """Write a campaign; returns its path for --configfile."""
        self.write("config/test.yaml", text)
        return "config/test.yaml"

    def simulate(self, **gpus: Any) -> dict[str, str]:
        """Give the project simulated GPUs; returns the environment that this takes.

        `gpus` are what `gpus.json` says: `name`, `uuids`, `driver`, the `compiler`'s version and the `others` that compute there.
        """
        path = self.write("gpus.json", json.dumps(gpus))
        return {VARIABLE: str(SIMULATED), "SIMULATED_GPUS": str(path)}

    def table(self, pattern: str) -> pd.DataFrame:
        """The one table that a pattern below results/ matches."""
        (path,) = (self.folder / "results").glob(pattern)
        return pd.read_csv(path, keep_default_na=False, na_values=[""])


C_HEADER = "/*---\ntitle: {0}\nidea: planted by a test\n---*/\n#include <stddef.h>\n#include <stdlib.h>\n"
C_SIGNATURE = "void gemm(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc)"
C_RIGHT = """
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += A[(size_t)m * lda + k] * B[(size_t)k * ldb + n];
      C[(size_t)m * ldc + n] = alpha * sum + (beta == 0 ? 0 : beta * C[(size_t)m * ldc + n]);
    }
"""


def c_kernel(title: str, body: str) -> str:
    """A CPU kernel file with a given body."""
    return C_HEADER.format(title) + C_SIGNATURE + " {" + body + "}\n"


CU_HEADER = """/*---
title: {0}
idea: planted by a test
parameters: {{BX: 16}}
sweep: {{BX: [8, 16]}}
block: [BX, BX]
grid: ["ceil_div(N, BX)", "ceil_div(M, BX)"]
---*/
extern "C" __global__ void gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {{
  const int row = blockIdx.y * BX + threadIdx.y, col = blockIdx.x * BX + threadIdx.x;
"""
CU_RIGHT = """
  if (row >= M || col >= N) return;
  Acc sum = 0;
  for (int k = 0; k < K; ++k) sum += A[size_t(row) * lda + k] * B[size_t(k) * ldb + col];
  C[size_t(row) * ldc + col] = alpha * sum + (beta == 0 ? T(0) : beta * C[size_t(row) * ldc + col]);
"""


def cuda_kernel(title: str, body: str) -> str:
    """A CUDA kernel file with a given body, which has `row` and `col`."""
    return CU_HEADER.format(title) + body + "}\n"
