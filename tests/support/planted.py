"""A copy of the project with its commands, and kernels to plant there."""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import synthetic
from ladder.core.places import HOME
from ladder.devices.simulation import VARIABLE

# pytest has it; scripts of this folder that are run by hand have not
sys.path.append(str(HOME / "studies"))
from checkout import Checkout

SIMULATED = HOME / "tests" / "support" / "simulated.py"
"""The GPUs that are not there; what a launch does there is what the kernel's file says behind `//
python: `, else the right thing.
"""


GPU = {"name": "Fake", "uuids": ["GPU-1"], "driver": "1.0", "compiler": "nvcc 1.0", "others": [0]}
"""A simulated GPU, its driver, the compiler's version, and how many others compute there."""


def written(path: Path, text: str, mode: int = 0o644) -> Path:
    """Write a file, and the folders that it needs; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


class Project(Checkout):
    """A copy of the project in a folder of its own, with its commands."""

    def campaign(self, text: str) -> str:
        """Write a campaign; returns its path for --configfile."""
        self.write("config/test.yaml", text)
        return "config/test.yaml"

    def simulate(self, **gpus: Any) -> None:
        """Give the project simulated GPUs. `gpus` are what `gpus.json` says other than `GPU`."""
        path = self.write("gpus.json", json.dumps(GPU | gpus))
        self.environment |= {VARIABLE: str(SIMULATED), "SIMULATED_GPUS": str(path)}

    def publish(self, runs: int) -> Path:
        """Publish small made-up runs of a GPU; returns their folder."""
        folder = self.folder / "results" / "published" / "nvidia-a" / "default"
        for run in range(runs):
            synthetic.write(
                folder / str(run),
                run,
                "nvidia-a",
                problems=synthetic.SMALL[:2],
                kernels=("03_shared_tile", "cublas"),
                processes=3,
            )
        synthetic.index(folder.parents[1])
        return folder

    def logged(self) -> str:
        """Snakemake's own log of the last run, which names every job."""
        return max((self.folder / ".snakemake" / "log").iterdir()).read_text()

    def table(self, pattern: str) -> pd.DataFrame:
        """The one table that a pattern below results/ matches."""
        (path,) = (self.folder / "results").glob(pattern)
        return pd.read_csv(path, keep_default_na=False, na_values=[""])


C_HEADER = (
    "/*---\ntitle: {0}\nidea: planted by a test\n---*/\n#include <stddef.h>\n#include <stdlib.h>\n"
)
C_SIGNATURE = (
    "void gemm(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T "
    "beta, T *C, int ldc)"
)
C_RIGHT = """
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      Acc sum = 0;
      for (int k = 0; k < K; ++k) sum += A[(size_t)m * lda + k] * B[(size_t)k * ldb + n];
      C[(size_t)m * ldc + n] = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * C[(size_t)m * ldc + n]);
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
  C[size_t(row) * ldc + col] = (alpha == 0 ? T(0) : alpha * sum) + (beta == 0 ? T(0) : beta * C[size_t(row) * ldc + col]);
"""


def cuda_kernel(title: str, body: str) -> str:
    """A CUDA kernel file with a given body, which has `row` and `col`."""
    return CU_HEADER.format(title) + body + "}\n"
