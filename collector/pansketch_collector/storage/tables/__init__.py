"""The tables of the database, and the figures that are kept of their rows."""
