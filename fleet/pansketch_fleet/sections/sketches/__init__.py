"""Readers of `sketches:`, one for each family."""
