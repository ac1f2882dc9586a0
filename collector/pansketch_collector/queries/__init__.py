"""From selected releases to answers."""
