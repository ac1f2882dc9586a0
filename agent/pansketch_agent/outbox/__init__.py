"""The durable queue of releases that are not acknowledged."""
