"""YAML with line numbers and references."""
