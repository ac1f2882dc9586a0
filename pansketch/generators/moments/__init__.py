"""Models from releases of moment sketches."""
