"""`validate`, `check` and what runs before an agent starts."""
