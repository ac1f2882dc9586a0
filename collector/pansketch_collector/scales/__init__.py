"""Scales learned from stored releases: printed for a configuration, or published for devices."""
