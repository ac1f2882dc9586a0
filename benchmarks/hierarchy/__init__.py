"""Hierarchies beside other methods."""
