/*---
title: CUTLASS, 3xTF32
idea: "CUTLASS's GEMM of float32 on tensor cores: each operand split into two of TF32, and three products"
rival: true
uses: [cutlass]
parameters: {BM: 128, BN: 128, BK: 16, STAGES: 4}
configurations: [{STAGES: 4}, {STAGES: 3}, {BM: 64}]
element_types: [float32]
precision: tf32
where: {down: "ceil_div(M, BM)", across: "ceil_div(N, BN)", order: 8 if across >= 6 else 4 if across >= 3 else across}
block: [256]
grid: [down * order, "ceil_div(across, order)"]
dynamic_shared: STAGES * BK * (BM + BN) * 4
needs: [alignment % 16 == 0, K % 4 == 0, N % 4 == 0, lda % 4 == 0, ldb % 4 == 0, ldc % 4 == 0]
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// It does not pass as float32: the product of the two low parts is left out, which integers of 24 bits show.
// Not a method but a rival: CUTLASS multiplies, and this file chooses the sizes. Its host code does not run; see docs/languages.md.

#include "cutlass_gemm.cuh"

using Gemm = Cutlass<float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Shape<BM, BN, BK>, Shape<BM / 2, BN / 4, BK>, Shape<16, 8, 8>, STAGES, 4,
                     4, cutlass::arch::OpMultiplyAddFastF32>;

extern "C" __global__ void __launch_bounds__(256)
    gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {
  cutlass_gemm<Gemm, STAGES * BK*(BM + BN) * 4>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
