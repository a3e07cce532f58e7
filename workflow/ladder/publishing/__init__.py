"""Published datasets, the pages that are filled from them, and the explorer."""
