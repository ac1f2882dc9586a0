"""Statistical lower bounds of a loss, and attacks."""
