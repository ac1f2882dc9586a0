"""Tables and JSON for people."""
