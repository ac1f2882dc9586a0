"""Measured ratios and errors: `python -m benchmarks`. Printed, never asserted in a test."""
