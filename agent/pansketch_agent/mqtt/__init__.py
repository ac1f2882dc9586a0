"""The agent's MQTT client, and its events."""
