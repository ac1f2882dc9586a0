"""Reports as tables and JSON."""
