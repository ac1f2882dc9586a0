"""Configurations as the program of a name sees them."""

from pansketch_fleet.config.loader import load_agent, load_collector, load_reader

LOADERS = {"agent": load_agent, "collector": load_collector, "reader": load_reader}
