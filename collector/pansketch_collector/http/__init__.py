"""The HTTP interface. `python -m pansketch_collector.http` runs it in its own process."""
