"""The pages of docs/reference that are generated from the code, and the JSON Schema."""
