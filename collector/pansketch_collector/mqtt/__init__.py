"""The collector's MQTT client."""
