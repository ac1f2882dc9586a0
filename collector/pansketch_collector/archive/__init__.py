"""The archive: a Parquet file for each day of a stream, and answers from these files."""
