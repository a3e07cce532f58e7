/* Makes a kernel for one product one for a batch: a product after the other. Its `gemm` becomes `product`. */
#if BATCH
static void product(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc);

void gemm(int M, int N, int K, T alpha, const T *A, int lda, const T *B, int ldb, T beta, T *C, int ldc, Batch batch) {
  for (long long z = 0; z < batch.count; ++z)
    product(M, N, K, alpha, A + z * batch.stride_a, lda, B + z * batch.stride_b, ldb, beta, C + z * batch.stride_c, ldc);
}
#define gemm product
#endif
