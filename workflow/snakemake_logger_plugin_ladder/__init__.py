"""The logger plugin `ladder`, where Snakemake looks for it."""

from ladder.pipeline.stages import LogHandler

__all__ = ["LogHandler"]
