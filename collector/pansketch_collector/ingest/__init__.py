"""Validate, commit, acknowledge; and what was refused."""
