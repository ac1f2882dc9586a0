"""Density Sketch: heavy cells, densities and their errors."""
