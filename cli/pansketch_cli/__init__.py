"""The `pansketch` command: inspects releases, and plans the sketches of a fleet."""
