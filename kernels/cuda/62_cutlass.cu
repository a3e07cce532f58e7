/*---
title: CUTLASS
idea: "CUTLASS's GEMM without tensor cores, in the form that its profiler names simt_sgemm"
rival: true
uses: [cutlass]
parameters: {BM: 128, BN: 128, STAGES: 4}
configurations: [{STAGES: 4}, {STAGES: 5}, {BM: 256}]
element_types: [float32]
where: {down: "ceil_div(M, BM)", across: "ceil_div(N, BN)", order: 8 if across >= 6 else 4 if across >= 3 else across}
block: [256]
grid: [down * order, "ceil_div(across, order)"]
dynamic_shared: STAGES * 8 * (BM + BN + 8) * 4
needs: []
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Not a method but a rival: CUTLASS multiplies, and this file chooses the sizes. Its host code does not run; see docs/languages.md.

#include "cutlass_gemm.cuh"

using Gemm = Cutlass<float, cutlass::arch::OpClassSimt, cutlass::arch::Sm80, Shape<BM, BN, 8>, Shape<BM / 4, BN / 2, 8>, Shape<1, 1, 1>, STAGES, 1, 1,
                     cutlass::arch::OpMultiplyAdd>;

extern "C" __global__ void __launch_bounds__(256)
    gemm(int M, int N, int K, T alpha, const T* A, int lda, const T* B, int ldb, T beta, T* C, int ldc) {
  cutlass_gemm<Gemm, STAGES * 8 * (BM + BN + 8) * 4>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
