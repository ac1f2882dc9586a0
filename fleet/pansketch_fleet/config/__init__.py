"""From `config.yaml` to a `Config`, and what is said of it."""
