"""Compare what the project claims with published and other data."""
