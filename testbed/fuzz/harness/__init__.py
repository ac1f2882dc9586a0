"""Targets in general: seeds, and the checks around each input."""
