"""Validation of incoming messages; no I/O."""
