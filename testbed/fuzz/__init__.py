"""Made-up bytes for everything that reads bytes: `python -m testbed.fuzz`."""
