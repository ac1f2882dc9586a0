"""The durable queue of unacknowledged releases."""
