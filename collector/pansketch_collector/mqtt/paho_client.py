"""paho's client over a socket that collects: its packets are read and written by our own loop."""

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from pansketch_collector.mqtt.buffered_socket import BufferedSocket
from pansketch_fleet.config.loader import Mqtt
from pansketch_fleet.mqtt import tls
from pansketch_fleet.mqtt.reconnect import Terms


class PahoClient(paho.Client):
    """paho's client over a socket that collects, and with no thread of its own."""

    wire: BufferedSocket

    def _create_socket(self) -> BufferedSocket:
        self.wire = BufferedSocket(super()._create_socket())  # type: ignore[arg-type]
        return self.wire


def paho_client(mqtt: Mqtt, client_id: str, terms: Terms) -> PahoClient:
    """A client with a persistent session and acknowledgements by hand. Raises TlsFilesError."""
    five = terms.version == "5"
    client = PahoClient(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=None if five else False,
        protocol=MQTTProtocolVersion.MQTTv5 if five else MQTTProtocolVersion.MQTTv311,
        manual_ack=True,
        reconnect_on_failure=False,
    )
    client.max_inflight_messages = terms.max_unanswered
    # Says that packets are written by our own loop; without it each would be sent by itself.
    client.on_socket_register_write = lambda *_: None
    if mqtt.username is not None:
        client.username_pw_set(mqtt.username, mqtt.password)
    if mqtt.tls:
        client.tls_set_context(tls.context(mqtt))
    return client
