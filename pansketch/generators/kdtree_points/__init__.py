"""KD-trees over raw points."""
