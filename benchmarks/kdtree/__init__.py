"""KD-trees."""
