"""The SQLite database: schema, writer, readers."""
