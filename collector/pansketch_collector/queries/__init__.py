"""Queries: from selected releases to answers."""
