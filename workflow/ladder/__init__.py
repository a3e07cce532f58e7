"""Gemm Ladder: compile, verify, time and draw GEMM kernels. CONTRIBUTING.md is the map of the modules."""
