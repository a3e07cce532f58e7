"""What Snakemake needs to know: targets, digests of code, logs and messages."""
