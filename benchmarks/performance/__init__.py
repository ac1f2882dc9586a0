"""Speed, memory, sizes, ingestion."""
