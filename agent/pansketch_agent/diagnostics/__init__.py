"""`validate`, `check`, and the checks before an agent starts."""
