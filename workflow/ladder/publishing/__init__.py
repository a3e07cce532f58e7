"""Publish datasets, fill the pages from them, and build the explorer."""
