"""Compare what the project claims with published and other data. The studies and their answers are here too."""
