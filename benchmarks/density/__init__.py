"""Density Sketch."""
