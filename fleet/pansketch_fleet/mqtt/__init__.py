"""What both MQTT clients share: reconnection, protocol version, TLS."""
