"""What every program of a fleet agrees on: configuration, firmware profiles, topics, messages."""
