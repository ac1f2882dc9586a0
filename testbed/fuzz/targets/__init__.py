"""One module for each kind of reader of bytes, and the registry."""
