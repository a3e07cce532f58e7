"""The command `ladder`."""
