"""Debian packages of the programs, each with an environment of its own below /opt."""
