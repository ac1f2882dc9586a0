"""The device program: readings in, private releases out."""
