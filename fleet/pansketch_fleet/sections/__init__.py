"""Readers of the sections of `config.yaml`."""
