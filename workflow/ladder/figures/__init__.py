"""Draw SVG figures from tables."""
