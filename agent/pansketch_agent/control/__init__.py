"""Requests from the command line to a running agent."""
