"""What each endpoint answers."""
