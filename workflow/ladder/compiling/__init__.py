"""Compilers, their output (registers, machine code, the issue model), and provenance."""
