"""Generators over releases of hierarchies."""
