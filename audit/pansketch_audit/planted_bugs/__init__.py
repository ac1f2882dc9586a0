"""Faulty mechanisms that an audit must find."""
