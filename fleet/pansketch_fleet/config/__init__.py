"""From `config.yaml` to a `Config`, and its summaries."""
