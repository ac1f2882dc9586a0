"""What the collector answers over HTTP. `python -m collector.web` is a process of its own."""
