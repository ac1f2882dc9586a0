"""The version, read by packaging without importing the library."""

__version__ = "0.1.0"
