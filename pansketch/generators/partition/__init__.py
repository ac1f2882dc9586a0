"""Weighted boxes that are sampled and answer queries."""
