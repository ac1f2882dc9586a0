"""Windows: schedule, clock, rate limit, and the release at their end."""
