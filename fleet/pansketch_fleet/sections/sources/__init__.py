"""Readers of `source:`."""
