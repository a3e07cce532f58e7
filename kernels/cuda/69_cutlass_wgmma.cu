/*---
title: CUTLASS, half precision, wgmma
idea: "CUTLASS's GEMM of 16-bit elements for compute capability 9.0, with the schedule whose parameters need no host: two warpgroups copy, one multiplies"
rival: true
uses: [cutlass]
parameters: {BM: 128, BN: 128, BK: 64, STAGES: 4}
configurations: [{STAGES: 4}, {BM: 64, BN: 256}, {STAGES: 3}]
element_types: [bfloat16, float16]
block: [384]
grid: ["ceil_div(M, BM)", "ceil_div(N, BN)"]
dynamic_shared: STAGES * BK * (BM + BN) * 2 + 1024
needs: [alignment % 16 == 0, K % 8 == 0, N % 8 == 0, lda % 8 == 0, ldb % 8 == 0, ldc % 8 == 0]
architecture: sm_90a
global_reads: K * (M * ceil_div(N, BN) + N * ceil_div(M, BM))
global_writes: M * N
---*/
// Not a method but a rival: CUTLASS multiplies, and this file chooses the sizes. Its host code does not run; see docs/languages.md.

#define NDEBUG  // an assertion would ask for the address of its text, and what asks for an address could remember

#ifdef __CUDACC_RTC__  // whose own `std` lacks what CUTLASS takes from it
namespace std {
template <class Type>
constexpr bool is_pointer_v = false;
template <class Type>
constexpr bool is_pointer_v<Type*> = true;
template <class...>
using void_t = void;
}  // namespace std
#endif

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "cutlass_types.cuh"

namespace gemms = cutlass::gemm;
namespace ends = cutlass::epilogue;
using Rows = cutlass::layout::RowMajor;
using Tiles = cute::Shape<cute::Int<BM>, cute::Int<BN>, cute::Int<BK>>;
using One = cute::Shape<cute::_1, cute::_1, cute::_1>;
using Loop = gemms::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, Rows, 8, Half, Rows, 8, float,
                                                  Tiles, One, gemms::collective::StageCount<STAGES>,
                                                  gemms::KernelCpAsyncWarpSpecialized>::CollectiveOp;
using End = ends::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tiles, One,
                                                ends::collective::EpilogueTileAuto, float, float, Half, Rows, 8, Half, Rows, 8,
                                                ends::NoSmemWarpSpecialized>::CollectiveOp;
using Kernel = gemms::kernel::GemmUniversal<cute::Shape<int, int, int>, Loop, End>;

extern "C" __global__ void __launch_bounds__(384)
    gemm(int M, int N, int K, float alpha, const T* A, int lda, const T* B, int ldb, float beta, T* C, int ldc) {
  static_assert(Kernel::MaxThreadsPerBlock == 384 && Kernel::SharedStorageSize <= STAGES * BK * (BM + BN) * 2 + 1024, "the header's");
  extern __shared__ __align__(1024) char shared[];
  Half* const c = reinterpret_cast<Half*>(C);
  if (alpha == 0) {  // what is in A and B may be NaN, and the loop has at least one step
    for (int i = threadIdx.x; i < BM * BN; i += 384) {
      const int row = blockIdx.x * BM + i / BN, col = blockIdx.y * BN + i % BN;
      if (row < M && col < N) c[int64_t(row) * ldc + col] = beta == 0 ? Half(0) : Half(beta * float(c[int64_t(row) * ldc + col]));
    }
    return;
  }
  Kernel::Params params;
  params.problem_shape = {M, N, K};
  params.mainloop.ptr_A = reinterpret_cast<const Half*>(A);
  params.mainloop.ptr_B = reinterpret_cast<const Half*>(B);
  cute::get<0>(params.mainloop.dA) = lda;
  cute::get<1>(params.mainloop.dB) = ldb;
  params.epilogue.ptr_C = params.epilogue.ptr_D = c;
  cute::get<0>(params.epilogue.dC) = cute::get<0>(params.epilogue.dD) = ldc;
  params.epilogue.thread.alpha = alpha;
  params.epilogue.thread.beta = beta;
  Kernel()(params, shared);
}
