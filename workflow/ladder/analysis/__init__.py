"""Turn samples into tables: summaries, finalists, models, repeatability, comparisons."""
