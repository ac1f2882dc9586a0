"""Distinct counting, as published and as it is here."""
