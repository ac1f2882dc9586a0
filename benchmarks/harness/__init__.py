"""Rows of results, reports, timing, and one benchmark as a command."""
