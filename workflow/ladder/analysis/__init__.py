"""From samples to tables: summaries, finalists, models, repeatability, comparisons."""
