"""---
title: Triton, TF32
idea: kernel 65 with operands rounded to TF32, for the tensor cores
rival: true
parameters: {BM: 128, BN: 128, BK: 32, GROUP: 8, WARPS: 8, STAGES: 3}
configurations: [{STAGES: 3}, {BM: 64, WARPS: 4}]
multiples: [A, B, C, lda, ldb, ldc, N, K]
element_types: [float32]
layouts: [nn, nt, tn, tt]
precision: tf32
block: [32 * WARPS]
grid: ["ceil_div(M, BM) * ceil_div(N, BN)"]
dynamic_shared: STAGES * (BM + BN) * BK * element_size + 1024
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---"""

import triton
import triton.language as tl


@triton.jit
def tf32(x):
    # the tensor cores cut off the last 13 bits, and that sums up: half of the last place comes first. The largest NaN would overflow
    rounded = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    return tl.where(x == x, rounded, x)


@triton.jit
def gemm(
    M, N, K, alpha, A, lda, B, ldb, beta, C, ldc,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    TRANS_A: tl.constexpr, TRANS_B: tl.constexpr,
):  # fmt: skip
    # neighboring programs take tiles of GROUP rows of tiles, so that what they read stays in the L2 cache
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tile = tl.program_id(0)
    first = tile // (GROUP * tiles_n) * GROUP
    high = min(tiles_m - first, GROUP)
    rest = tile % (GROUP * tiles_n)
    row = (first + rest % high) * BM + tl.arange(0, BM)
    col = rest // high * BN + tl.arange(0, BN)
    deep = tl.arange(0, BK)
    # what lies transposed has its rows, lda or ldb apart, along K
    a = (
        A + deep[None, :].to(tl.int64) * lda + row[:, None]
        if TRANS_A
        else A + row[:, None].to(tl.int64) * lda + deep[None, :]
    )
    b = (
        B + col[None, :].to(tl.int64) * ldb + deep[:, None]
        if TRANS_B
        else B + deep[:, None].to(tl.int64) * ldb + col[None, :]
    )
    rows, cols = row[:, None] < M, col[None, :] < N
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K if alpha != 0 else 0, BK):
        left = K - k
        x = tl.load(a, mask=rows & (deep[None, :] < left), other=0.0)
        y = tl.load(b, mask=cols & (deep[:, None] < left), other=0.0)
        sums = tl.dot(tf32(x), tf32(y), sums, input_precision="tf32")
        a += BK * lda.to(tl.int64) if TRANS_A else BK
        b += BK if TRANS_B else BK * ldb.to(tl.int64)
    out = sums * alpha
    c = C + row[:, None].to(tl.int64) * ldc + col[None, :]
    inside = rows & cols
    if beta != 0:
        out += beta * tl.load(c, mask=inside, other=0.0).to(tl.float32)
    tl.store(c, out.to(C.dtype.element_ty), mask=inside)
