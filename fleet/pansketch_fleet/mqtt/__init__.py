"""The common parts of the MQTT clients: reconnection, protocol version, TLS."""
