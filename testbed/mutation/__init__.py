"""Mutants of the modules that keep the guarantee, and whether tests and audit notice them."""
