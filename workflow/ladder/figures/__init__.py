"""From tables to SVG."""
