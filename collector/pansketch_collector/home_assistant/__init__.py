"""MQTT discovery for Home Assistant."""
