"""Give Snakemake its targets, digests of code, logs and messages."""
