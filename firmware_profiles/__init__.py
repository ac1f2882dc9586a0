"""One YAML file per device class: memory, rate, outbox and default sketch sizes."""
