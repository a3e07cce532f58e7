"""What is measured: kernels, problems, campaigns, and the limits of the hardware."""
