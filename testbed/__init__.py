"""Real processes, brokers and browsers for demo, tests, chaos and benchmarks."""
