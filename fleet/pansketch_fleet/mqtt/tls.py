"""TLS to the broker: the context of a configuration, and explanations of a failed handshake."""

import socket
import ssl
from pathlib import Path

from pansketch_fleet.settings.sources import (
    Mqtt,
)
from pansketch_fleet.systemd import NO_CREDENTIAL, missing_credential

_CLOCK = "or set this host's clock"
_CA = "is of no CA that this host trusts; name the CA's certificate as mqtt.ca_file"
# By the verification codes of OpenSSL (x509_vfy.h).
_BROKER_CERTIFICATE = {
    9: f"is not valid yet; wait for its first day, {_CLOCK}",
    10: f"has expired; make the broker a new one, {_CLOCK}",
    18: _CA,
    19: _CA,
    20: _CA,
    21: _CA,
    23: "is revoked; make the broker a new one",
    26: "is not one for a server; make the broker one of its own",
}
_NO_TLS = "it offers no TLS on that port; correct the port in mqtt.url, or write mqtt://"
_NAME_CODES = (62, 64)  # of a host, of an address
_OWN = "this host's certificate (mqtt.cert_file)"
# By the names of OpenSSL's alerts, which a broker sends before it closes the connection.
_ALERTS = {
    "CERTIFICATE_REQUIRED": "requires a certificate; set mqtt.cert_file and mqtt.key_file, or "
    "correct the port in mqtt.url",
    "CERTIFICATE_EXPIRED": f"reports that {_OWN} has expired; make a new one, {_CLOCK}",
    "CERTIFICATE_REVOKED": f"reports that {_OWN} is revoked; make a new one",
    "UNKNOWN_CA": f"does not trust the CA of {_OWN}; have it signed by the broker's CA",
    "BAD_CERTIFICATE": f"refuses {_OWN}; make a new one with the broker's CA",
    "UNSUPPORTED_CERTIFICATE": f"reports that {_OWN} is not one for a client; make a new one",
    "PROTOCOL_VERSION": "offers no TLS 1.2 or newer; update the broker",
}


class TlsFilesError(ValueError):
    """A file that cannot be used: `key` names it in the section `mqtt:`."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"mqtt.{key} {problem}")
        self.key, self.problem = key, problem


def context(mqtt: Mqtt) -> ssl.SSLContext:
    """Return a context that verifies the broker and has this host's certificate, if there is one.

    TLS 1.2 or newer. Raises TlsFilesError.
    """
    if mqtt.ca_file is not None:
        _check_readable("ca_file", mqtt.ca_file)
    try:
        made = ssl.create_default_context(cafile=mqtt.ca_file)
    except OSError:
        problem = f"{mqtt.ca_file} is no PEM certificate; name the one of the broker's CA"
        raise TlsFilesError("ca_file", problem) from None
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if mqtt.cert_file is not None and mqtt.key_file is not None:
        _show(made, mqtt.cert_file, mqtt.key_file)
    return made


def _show(made: ssl.SSLContext, cert_file: Path, key_file: Path) -> None:
    _check_readable("cert_file", cert_file)
    _check_readable("key_file", key_file)
    try:
        # Without a passphrase OpenSSL would wait for one on the terminal.
        made.load_cert_chain(cert_file, key_file, password="")
    except ssl.SSLError as error:
        problem = f"{key_file} or {cert_file} is no plain PEM file; name a key without passphrase"
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{key_file} is not the key of {cert_file}; name the two that belong together"
        raise TlsFilesError("key_file", problem) from None


def _check_readable(key: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            begin = file.read(len(NO_CREDENTIAL) + 1)
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror})"
        raise TlsFilesError(key, f"{why}; let this program's user read it") from None
    if problem := missing_credential(path, begin):
        raise TlsFilesError(key, problem)


def meaning(error: BaseException | None, mqtt: Mqtt) -> str:
    """Explain a failed handshake, one line with the fix; "" if TLS is not the cause."""
    if not mqtt.tls:
        return ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate {_certificate_problem(error, mqtt.host)}"
    if isinstance(error, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError):
        return _NO_TLS
    return _alert(error) if isinstance(error, ssl.SSLError) else ""


def absence(error: BaseException, host: str) -> str:
    """Explain a connection that could not be opened; with the fix where no wait is one."""
    reason = getattr(error, "strerror", None) or type(error).__name__
    if isinstance(error, socket.gaierror):
        return f"no address for {host}: {reason}; correct mqtt.url or the resolver"
    return str(reason)


def credentials_fix(mqtt: Mqtt) -> str:
    """Return what to do when the broker refuses this user."""
    if mqtt.enrolled:
        known = "have the broker know the password of agent.credentials"
        return f"{known}: pansketch-collector enroll with --passwords, then reload the broker"
    if mqtt.username is not None:
        return "check mqtt.username and mqtt.password"
    text = "set mqtt.username and mqtt.password"
    if mqtt.cert_file is None:
        return text
    return f"correct the port in mqtt.url to one for certificates, or {text}"


def _alert(error: ssl.SSLError) -> str:
    reason = error.reason or "handshake failed"
    for alert, text in _ALERTS.items():
        if reason.endswith(f"ALERT_{alert}"):
            return f"it {text}"
    if reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"):
        return _NO_TLS
    return f"TLS failed ({reason}); check mqtt.url, mqtt.ca_file and the broker's log"


def _certificate_problem(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code in _NAME_CODES:
        return f"is not for {host}; write a name that it has in mqtt.url, or make it one for {host}"
    known = _BROKER_CERTIFICATE.get(error.verify_code)
    return known or f"is not valid ({error.verify_message}); make the broker a new one"


def closed_connection_reason(mqtt: Mqtt, max_seconds: float) -> str:
    """Return why a broker closes connections before its CONNACK, or "" if it does not report it.

    Since TLS 1.3 a broker checks a certificate after the client's handshake, so its alert is the
    first thing to read. This opens a connection of its own to read it.
    """
    if not mqtt.tls:
        return "it ends the connection without a reason; for a port with TLS write mqtts://"
    try:
        with socket.create_connection((mqtt.host, mqtt.port), max_seconds) as plain:
            plain.settimeout(max_seconds)
            with context(mqtt).wrap_socket(plain, server_hostname=mqtt.host) as secured:
                return _final_alert(secured)
    except (OSError, ValueError) as error:
        return meaning(error, mqtt)


def _final_alert(secured: ssl.SSLSocket) -> str:
    try:
        secured.recv(1)
    except ssl.SSLError as error:
        return _alert(error)
    except OSError:
        pass
    return ""
