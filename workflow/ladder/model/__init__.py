"""Kernels, problems, campaigns, and the limits of the hardware."""
