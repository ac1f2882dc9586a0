"""Birth message, last will and health messages."""
