"""Moment sketches."""
