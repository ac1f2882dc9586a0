"""Access, limits, thread pools, ETags, problem details."""
