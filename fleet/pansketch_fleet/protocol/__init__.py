"""Topics and messages between agents and collector."""
