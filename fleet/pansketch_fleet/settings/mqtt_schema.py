"""The keys of `mqtt:`, and those that a source of type `mqtt` shares with it."""

from typing import Annotated, Literal, get_args

from pansketch_fleet.settings.section import KeyDoc, Section

Protocol = Literal["auto", "5", "3.1.1"]

CA_FILE = KeyDoc(
    "The CA certificate that signed the broker's certificate, as a PEM file.",
    "/etc/pansketch/ca.pem",
    form="path",
    allowed="only with an `mqtts://` address",
    default="the system's CA certificates",
)
CERT_FILE = KeyDoc(
    "The client certificate, as a PEM file.",
    "/etc/pansketch/dongsi.crt",
    form="path",
    allowed="only with an `mqtts://` address, and together with `key_file`",
    default="no client certificate",
)
KEY_FILE = KeyDoc(
    "The private key of `cert_file`, as a PEM file.",
    "/etc/pansketch/dongsi.key",
    form="path",
    allowed="only together with `cert_file`",
    default="no client certificate",
)
USERNAME = KeyDoc("The user name at the broker.", "dongsi", default="no authentication")
PASSWORD = KeyDoc(
    "The password at the broker. Keep it in a file of its own.",
    '"${file:/etc/pansketch/password}"',
    allowed="only with a `username`",
    default="no password",
)


class MqttSection(Section, frozen=True):
    """The fleet's broker, and the credentials of the program that connects to it."""

    url: Annotated[
        str,
        KeyDoc(
            "The broker's address. `mqtts://` is TLS; the default ports are 1883 and 8883.",
            "mqtts://broker.example:8883",
            form="address",
            allowed="`mqtt://HOST[:PORT]` or `mqtts://HOST[:PORT]`, without credentials",
        ),
    ]
    ca_file: Annotated[str | None, CA_FILE] = None
    cert_file: Annotated[str | None, CERT_FILE] = None
    key_file: Annotated[str | None, KEY_FILE] = None
    username: Annotated[str | None, USERNAME] = None
    password: Annotated[str | None, PASSWORD] = None
    protocol: Annotated[
        str,
        KeyDoc(
            "The MQTT version. `auto` uses 5 if the broker supports it, and 3.1.1 otherwise.",
            "auto",
            values=get_args(Protocol),
        ),
    ] = "auto"

    def __repr__(self) -> str:
        return "MqttSection(...)"  # a password must not reach a log
