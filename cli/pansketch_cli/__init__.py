"""The `pansketch` command: looks at what the library makes, and plans what a fleet will have."""
