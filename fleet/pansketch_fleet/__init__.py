"""The common parts of a fleet's programs: configuration, firmware profiles, topics, messages."""
