"""Exact losses, by enumeration."""
