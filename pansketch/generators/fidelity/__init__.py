"""The predicted distance of synthetic records from the raw readings."""
