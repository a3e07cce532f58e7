"""What the project claims, and what published and other data say about it. Studies are here too."""
