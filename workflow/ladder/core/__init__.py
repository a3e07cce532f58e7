"""Types, errors, files, statistics and expressions that every other package uses."""
