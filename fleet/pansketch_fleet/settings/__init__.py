"""The schema, firmware profiles, and the values of a configuration."""
