"""Streams that nobody tuned for: made-up data of every kind that fleets have, and their errors."""
