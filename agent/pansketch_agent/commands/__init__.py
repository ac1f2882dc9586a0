"""Commands that only read: sensors, outbox, ledger."""
