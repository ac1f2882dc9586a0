"""Payloads of Home Assistant's MQTT device discovery (2024.11 on): the state topics of a device,
and templates that read them.

Home Assistant reads the topics of the devices directly, with any content. So a template returns one
of a few fixed words, or a whole number within the bounds of a health message. Anything else becomes
`None`, which is shown as unknown.
"""

import json
from typing import Final

from pansketch import __version__
from pansketch_fleet.protocol import topics
from pansketch_fleet.protocol.messages import MAX_NUMBER

# Three missing health messages, which a device sends every minute.
EXPIRE_SECONDS: Final = 180

_FIELD: Final = "{% set said = value_json.FIELD if value_json is mapping else none %}"
_SHOWN: Final = f"{{{{ said if said is integer and 0 <= said <= {MAX_NUMBER} else none }}}}"
_NUMBER: Final = _FIELD + _SHOWN
# A counter that a health message omits is 0.
_ZERO: Final = _FIELD.replace("FIELD", "FIELD | default(0)") + _SHOWN
_SUM: Final = (
    _FIELD.replace("FIELD", "FIELD | default({})")
    + "{% set said = said.values() | select('integer') | select('ge', 0) | sum"
    " if said is mapping else none %}" + _SHOWN
)
_PROBLEM: Final = _FIELD + "{{ 'OFF' if said is true else 'ON' if said is false else none }}"
_STATE: Final = (
    _FIELD + "{{ 'ON' if said == 'online' else 'OFF' if said in ('offline', 'stopped') else none }}"
)
_AVAILABLE: Final = _FIELD + "{{ 'online' if said == 'online' else 'offline' }}"

_Entity = dict[str, object]


def topic(prefix: str, fleet: str, device: str) -> str:
    """The topic of a device's retained announcement; an empty message there removes it."""
    return f"{prefix}/device/{_identity(fleet, device)}/config"


def message(fleet: str, device: str, version: str | None) -> bytes:
    """The announcement of one device, as JSON. `version`: its agent's, None if unknown."""
    known = {} if version is None else {"sw_version": version}
    return json.dumps(
        {
            "device": {
                "identifiers": [_identity(fleet, device)],
                "name": device,
                "manufacturer": "pansketch",
                "model": f"agent of fleet {fleet}",
                **known,
            },
            "origin": {"name": "pansketch", "sw_version": __version__},
            "components": _entities(fleet, device),
        },
        separators=(",", ":"),
    ).encode()


def _identity(fleet: str, device: str) -> str:
    # No id has an underscore, so no two devices have the same identity.
    return f"pansketch_{fleet}_{device}"


def _entities(fleet: str, device: str) -> dict[str, _Entity]:
    found = {
        "connection": _connection(fleet, device),
        "clock": _of_health(fleet, device, "binary_sensor", "clock_synchronised", _PROBLEM)
        | {"name": "Clock", "device_class": "problem"},
        "memory": _of_health(fleet, device, "binary_sensor", "memory_protected", _PROBLEM)
        | {"name": "Memory", "device_class": "problem"},
    }
    for field, (shown, rest) in _NUMBERS.items():
        found[field] = _of_health(fleet, device, "sensor", field, shown) | rest
    for key, entity in found.items():
        entity["unique_id"] = f"{_identity(fleet, device)}_{key}"
        entity["entity_category"] = "diagnostic"
    return found


def _connection(fleet: str, device: str) -> _Entity:
    """The connection entity: without an availability topic, since it reports the availability
    itself."""
    return {
        "platform": "binary_sensor",
        "name": "Connection",
        "device_class": "connectivity",
        "state_topic": topics.status(fleet, device),
        "value_template": _read("state", _STATE),
    }


def _of_health(fleet: str, device: str, platform: str, field: str, shown: str) -> _Entity:
    return {
        "platform": platform,
        "state_topic": topics.health(fleet, device),
        "value_template": _read(field, shown),
        "expire_after": EXPIRE_SECONDS,
        "availability_topic": topics.status(fleet, device),
        "availability_template": _read("state", _AVAILABLE),
    }


def _read(field: str, shown: str) -> str:
    return shown.replace("FIELD", field)


def _duration(name: str, state_class: str) -> _Entity:
    return {
        "name": name,
        "device_class": "duration",
        "unit_of_measurement": "s",
        "state_class": state_class,
    }


def _count(name: str, unit: str, state_class: str = "measurement") -> _Entity:
    return {"name": name, "unit_of_measurement": unit, "state_class": state_class}


_NUMBERS: Final[dict[str, tuple[str, _Entity]]] = {
    "uptime_seconds": (_NUMBER, _duration("Uptime", "total_increasing")),
    "waiting": (_NUMBER, _count("Releases waiting", "releases")),
    "oldest_waiting_seconds": (_NUMBER, _duration("Oldest release waiting", "measurement")),
    "deferred": (_SUM, _count("Releases deferred", "releases")),
    "dropped": (_NUMBER, _count("Releases dropped", "releases", "total_increasing")),
    "set_aside": (_NUMBER, _count("Files set aside", "files")),
    "refused_dropped": (
        _ZERO,
        _count("Refused releases removed", "releases", "total_increasing"),
    ),
    "name_conflicts": (
        _ZERO,
        _count("Other clients with this name", "clients", "total_increasing"),
    ),
    "written_today_bytes": (
        _NUMBER,
        {
            "name": "Written today",
            "device_class": "data_size",
            "unit_of_measurement": "B",
            "state_class": "total_increasing",
        },
    ),
}
