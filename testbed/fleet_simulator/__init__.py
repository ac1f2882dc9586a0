"""A fleet of many devices as one process, to load a broker and a collector and to size a server."""
