"""The vendors' libraries on the same problem: cuBLAS on a GPU, NumPy's BLAS on the CPU."""
