"""The operating system: clock, durable files, memory, hardening."""
