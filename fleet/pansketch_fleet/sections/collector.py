"""The section `collector`: the address of HTTP, its access control, and Home Assistant."""

import re
from ipaddress import ip_address
from pathlib import Path

from pansketch_fleet.settings.schema import CollectorSection, HomeAssistantSection
from pansketch_fleet.settings.section import section
from pansketch_fleet.settings.settings import DatabaseServer, HomeAssistant, Http
from pansketch_fleet.yaml.document import Document

DATABASE = "var/collector.sqlite"
MIN_TOKEN = 16  # characters
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+|localhost)):([0-9]{1,5})")
_TOKEN = re.compile(rf"[!-~]{{{MIN_TOKEN},512}}")
_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){0,8}", re.IGNORECASE)
_EXAMPLE = "write 127.0.0.1:8080, [::1]:8080 or another address of this host"
_ADDRESSED = (
    "write postgresql://USER@HOST:5432/DATABASE, and a password as collector.database_password"
)
# Addresses of libpq without options for secrets: errors print this address.
_HOST = r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])?(?::[0-9]{1,5})?"
_OPTION = (
    r"(?:host|hostaddr|port|sslmode|sslrootcert|sslcert|sslkey|sslcrl|ssl_min_protocol_version|"
    r"channel_binding|gssencmode|krbsrvname|connect_timeout|application_name|target_session_attrs|"
    r"load_balance_hosts)=[\w./:,%+@-]*"
)
_SERVER = re.compile(
    rf"postgresql://(?:(?:[\w.+-]|%40)+@)?{_HOST}(?:,{_HOST})*/[\w.%+-]+"
    rf"(?:\?{_OPTION}(?:&{_OPTION})*)?",
    re.ASCII,
)
_WHERE = "collector.home_assistant"
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,4}")


def read_database(
    document: Document, given: CollectorSection, folder: Path
) -> Path | DatabaseServer:
    """Return the database: a file or a server. Raises ConfigError, never with its password."""
    text, password = given.database or DATABASE, given.database_password
    if not text.startswith("postgres"):
        if password is not None:
            problem = "has no effect for a file; name a server in collector.database"
            raise document.error("collector.database_password", problem)
        return folder / text
    if not _SERVER.fullmatch(text):
        # The text is not repeated: it may hold a password that is spelled in any way.
        raise document.error("collector.database", f"is no address of a server; {_ADDRESSED}")
    if password == "":
        raise document.error("collector.database_password", "is empty; fill it in or remove it")
    return DatabaseServer(text, password)


def read_http(document: Document, given: CollectorSection, *, has_token: bool) -> Http | None:
    """Return the settings, or None without an HTTP server.

    `has_token`: this program checks tokens; for others its reference was not resolved, and its text
    is ignored. Raises ConfigError, never with the token in it.
    """
    if given.http is None:
        _check_alone(document, given)
        return None
    host, port, loopback = _address(document, given.http)
    if not loopback and given.token is None and not given.public:
        problem = (
            f"{host} is reachable from other hosts without a token; add collector.token, "
            "or collector.public: true to allow every reader"
        )
        raise document.error("collector.http", problem)
    token = given.token if has_token else None
    if token is not None and not _TOKEN.fullmatch(token):
        problem = f"is no token; write at least {MIN_TOKEN} printable characters, without spaces"
        raise document.error("collector.token", problem)
    hosts = tuple(name.lower() for name in given.hosts or ())
    for name in hosts:
        if not _NAME.fullmatch(name):
            problem = f"{name[:40]!r} is no host name; write one such as fleet.example.org"
            raise document.error("collector.hosts", problem)
    return Http(host, port, loopback, token, given.public, hosts)


def _check_alone(document: Document, given: CollectorSection) -> None:
    named = {
        "token": given.token,
        "public": given.public or None,
        "hosts": given.hosts,
        "audit": given.audit,
    }
    for key, value in named.items():
        if value is not None:
            problem = "has no effect without an address; add collector.http: 127.0.0.1:8080"
            raise document.error(f"collector.{key}", problem)


def _address(document: Document, text: str) -> tuple[str, int, bool]:
    """Return host, port and whether only this host reaches it."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 1 <= int(found[3]) <= 65535:
        raise document.error("collector.http", f"{text[:60]!r} is no address; {_EXAMPLE}")
    host = found[1] or found[2]
    if host == "localhost":
        return "127.0.0.1", int(found[3]), True
    try:
        return host, int(found[3]), ip_address(host).is_loopback
    except ValueError:
        raise document.error("collector.http", f"{text[:60]!r} is no address; {_EXAMPLE}") from None


def read_home_assistant(document: Document, given: CollectorSection) -> HomeAssistant | None:
    """Return the settings, or None without announcements. Raises ConfigError."""
    wanted = given.home_assistant
    if wanted is None or wanted is False:
        return None
    if wanted is True:
        return HomeAssistant()
    keys = section(document, _WHERE, wanted, HomeAssistantSection)
    if not _PREFIX.fullmatch(keys.prefix):
        problem = (
            f"{keys.prefix[:40]!r} is no discovery prefix; write homeassistant, or the prefix "
            "that Home Assistant's MQTT options show"
        )
        raise document.error(f"{_WHERE}.prefix", problem)
    return HomeAssistant(keys.prefix, keys.remove)
