/*---
title: CUTLASS, half precision
idea: "CUTLASS's GEMM of 16-bit elements by the tensor cores' instruction that compute capability 8.0 has"
rival: true
uses: [cutlass]
parameters: {BM: 128, BN: 256, BK: 64, STAGES: 3}
configurations: [{STAGES: 3}, {BM: 256, BN: 128}, {BN: 128, STAGES: 4}]
element_types: [bfloat16, float16]
where: {down: "ceil_div(M, BM)", across: "ceil_div(N, BN)", order: 8 if across >= 6 else 4 if across >= 3 else across}
block: [256]
grid: [down * order, "ceil_div(across, order)"]
dynamic_shared: STAGES * BK * (BM + BN) * 2
needs: [alignment % 16 == 0, K % 8 == 0, N % 8 == 0, lda % 8 == 0, ldb % 8 == 0, ldc % 8 == 0]
compute_capability: 8.0
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Not a method but a rival: CUTLASS multiplies, and this file chooses the sizes. Its host code does not run; see docs/languages.md.

#include "cutlass_gemm.cuh"
#include "cutlass_types.cuh"

using Gemm = Cutlass<Half, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Shape<BM, BN, BK>,
                     Shape<BM == 256 ? 64 : BM / 2, BM == 256 ? BN / 2 : BN / 4, BK>, Shape<16, 8, 16>, STAGES, 8, 8, cutlass::arch::OpMultiplyAdd>;

extern "C" __global__ void __launch_bounds__(256)
    gemm(int M, int N, int K, Acc alpha, const T* A, int lda, const T* B, int ldb, Acc beta, T* C, int ldc) {
  cutlass_gemm<Gemm, STAGES * BK*(BM + BN) * 2>(M, N, K, alpha, reinterpret_cast<const Half*>(A), lda, reinterpret_cast<const Half*>(B),
                                                ldb, beta, reinterpret_cast<Half*>(C), ldc);
}
