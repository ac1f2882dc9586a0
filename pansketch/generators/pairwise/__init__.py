"""Joint records from releases of views."""
