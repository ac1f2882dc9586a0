"""The agent's MQTT client, and the events that it reports."""
