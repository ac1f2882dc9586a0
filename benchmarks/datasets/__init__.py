"""Data, bundled or drawn."""
