"""Observation of a run from outside."""
