"""Sensors that are polled."""
