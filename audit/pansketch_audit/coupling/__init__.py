"""Coupled runs: with a unit and without it, under noise that hides the difference."""
