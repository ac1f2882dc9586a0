"""Read-only commands: sensors, outbox, ledger."""
