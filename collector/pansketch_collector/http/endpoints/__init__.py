"""The endpoints, their parameters and their answers."""
