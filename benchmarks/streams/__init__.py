"""Streams that no setting was tuned on: synthetic data of every kind, and their errors."""
