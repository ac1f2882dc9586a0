"""A running agent is seized and its memory searched."""
