"""The database, SQLite or PostgreSQL: schema, writer, readers."""
