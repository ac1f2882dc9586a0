"""Fuzz inputs for every parser of bytes: `python -m testbed.fuzz`."""
