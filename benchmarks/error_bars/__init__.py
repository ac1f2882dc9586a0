"""Coverage of error bars."""
