"""One YAML file per device class: memory, rate and outbox."""
