"""The journal, Parquet and CSV files, and the names of a dataset's files."""
