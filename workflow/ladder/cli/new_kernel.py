"""A kernel to begin with in each language: a template, or an example of the project's own."""

import re
from pathlib import Path

from ladder.core import places
from ladder.core.errors import InputError
from ladder.core.files import write_whole
from ladder.model.kernel import SUFFIXES
from ladder.model.kernel_file import check_name

TEXT = {
    ".cu": """/*---
title: {title}
idea: a thread an element; say here what it does better than the rung below
# label: the idea in a few words, for figures
# builds_on: the rung that it improves, if not the one before it
parameters: {{BX: 32, BY: 8}}
sweep: {{BX: [16, 32], BY: [8, 16]}}
block: [BX, BY]
grid: ["ceil_div(N, BX)", "ceil_div(M, BY)"]
---*/
// C <- alpha*A*B + beta*C, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc). T, BX and BY are defined for you.

extern "C" __global__ void gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {{
  const int row = blockIdx.y * BY + threadIdx.y, col = blockIdx.x * BX + threadIdx.x;
  if (row >= M || col >= N) return;
  Acc sum = 0;
  for (int k = 0; k < K; ++k) sum += A[size_t(row) * lda + k] * B[size_t(k) * ldb + col];
  T* c = &C[size_t(row) * ldc + col];
  *c = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * *c);  // as in BLAS: what does not count may hold NaN
}}
""",
    ".c": """/*---
title: {title}
idea: rows of B are read one after another; say here what it does better than the rung below
# label: the idea in a few words, for figures
# builds_on: the rung that it improves, if not the one before it
---*/
// C <- alpha*A*B + beta*C, row-major: A is M x K (lda), B is K x N (ldb), C is M x N (ldc). T is defined for you.
#include <stddef.h>

void gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {{
  for (int i = 0; i < M; ++i) {{
    T* c = &C[(size_t)i * ldc];
    for (int j = 0; j < N; ++j) c[j] = beta == 0 ? 0 : beta * c[j];  // as in BLAS: what does not count may hold NaN
    for (int k = 0; k < K && alpha != 0; ++k) {{
      const T a = alpha * A[(size_t)i * lda + k];
      for (int j = 0; j < N; ++j) c[j] += a * B[(size_t)k * ldb + j];
    }}
  }}
}}
""",
}


EXAMPLES = {
    ".ptx": places.HOME / "kernels" / "cuda" / "64_ptx.ptx",
    "tensor": places.HOME / "kernels" / "cuda" / "30_half_tensor_maps.cu",
}


def write(start: str, name: str, folder: Path) -> Path:
    """Write a kernel that begins as a template of `TEXT` or as one of `EXAMPLES`; return its path
    in the project `folder`.

    Raises `InputError` if the folder is no project, and if the name is not valid or is taken.
    """
    if not places.has_kernels(folder):
        raise InputError(
            f"{folder}: got neither kernels/cuda nor kernels/cpu; expected a project, which "
            "`ladder init` begins"
        )
    suffix = EXAMPLES[start].suffix if start in EXAMPLES else start
    (kind,) = (kind for kind, suffixes in SUFFIXES.items() if suffix in suffixes)
    path = folder / "kernels" / kind / f"{name}{suffix}"
    check_name(name, name)
    if taken := [
        path.with_suffix(other) for other in SUFFIXES[kind] if path.with_suffix(other).exists()
    ]:
        raise InputError(f"{taken[0]}: is there already; expected a name that is not taken")
    title = name.lstrip("0123456789_").replace("_", " ").capitalize() or name
    text = EXAMPLES[start].read_text() if start in EXAMPLES else TEXT[start].format(title=title)
    text = re.sub("^title: .*$", f"title: {title}", text, count=1, flags=re.MULTILINE)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, text.replace("\nrival: true\n", "\n", 1).encode())
    return path
