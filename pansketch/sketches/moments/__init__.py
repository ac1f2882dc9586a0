"""Moment sketches: sums of bounded features."""
