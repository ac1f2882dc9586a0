"""The server program: ingests the releases of a fleet, stores them, and answers queries."""
