"""The mechanisms that are audited."""
