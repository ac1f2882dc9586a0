"""Requests of the command line to a running agent."""
