"""Views and joint records."""
