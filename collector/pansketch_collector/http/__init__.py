"""What the collector answers over HTTP. `python -m pansketch_collector.http` is a process of its
own."""
