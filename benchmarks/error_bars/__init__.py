"""Whether error bars hold."""
