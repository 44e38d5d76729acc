"""The REST API of a worker: its addresses, its additional headers, and its TLS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from twinlog.config.keys.table import WORKER, WORKER_FILE
from twinlog.config.refused import ValueRefusedError
from twinlog.config.rest_values import parse_header_rules, parse_listener
from twinlog.config.security.tls import read_tls
from twinlog.config.text.reading import ConfigReader, Problems, read_fields
from twinlog.config.text.resolve import Layer
from twinlog.errors import ConfigProblem
from twinlog.settings.metrics import ListenerAddress
from twinlog.settings.tls import ClientAuth, TlsSettings
from twinlog.settings.worker import HeaderSettings, RestSettings

_KEY_STORE = "ssl.keystore.location"
_EXTENSIONS = "rest.extension.classes"
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
"""The only extension there is: users log in to the REST API. Connect finds it by its short name, too."""


def read_rest(layer: Layer, file: str, problems: Problems, warnings: list[str]) -> RestSettings:
    """The settings of the REST API; a wrong value becomes a problem. A problem with a missing key names `file`."""
    reading = ConfigReader(layer, WORKER_FILE, problems)
    listeners = read_listeners(reading, "listeners")
    if not listeners:
        entry = layer.get("listeners")
        if entry is not None and not entry.value.strip():
            problems.refuse(entry, "no address", "at least one, such as http://:8083")
    admin = read_listeners(reading, "admin.listeners") if "admin.listeners" in layer else None
    _check_extensions(reading, problems)
    https = read_https(layer, "listeners.https.", listeners, file, problems, warnings)
    admin_https = read_https(layer, "admin.listeners.https.", admin or (), file, problems, warnings)
    advertised = reading.text("rest.advertised.listener")
    if advertised and advertised not in {listener.scheme for listener in listeners}:
        problems.refuse(layer["rest.advertised.listener"], repr(advertised), "the scheme of one of the listeners")
    return RestSettings(
        **read_fields(RestSettings, reading),
        listeners=listeners,
        admin_listeners=admin,
        response_headers=_headers(reading),
        https=None if https is None else https[0],
        https_client_auth="none" if https is None else https[1],
        admin_https=None if admin_https is None else admin_https[0],
        admin_https_client_auth="none" if admin_https is None else admin_https[1],
    )


def read_listeners(reading: ConfigReader, name: str) -> tuple[ListenerAddress, ...]:
    """The addresses of a key; wrong addresses were a problem already."""
    try:
        return tuple(parse_listener(item) for item in reading.items(name))
    except ValueRefusedError:
        # A problem already.
        return ()


def _check_extensions(reading: ConfigReader, problems: Problems) -> None:
    """An unknown name is refused: if a login were missing, everybody could use the API."""
    unknown = set(reading.items(_EXTENSIONS)) - {BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]}
    if unknown:
        found = ", ".join(repr(name) for name in sorted(unknown))
        problems.refuse(reading.layer[_EXTENSIONS], found, f"{BASIC_AUTH}, or none")


def _headers(reading: ConfigReader) -> tuple[HeaderSettings, ...]:
    return parse_header_rules(reading.text("response.http.headers.config"))


def read_https(
    layer: Layer, prefix: str, listeners: Sequence[ListenerAddress], file: str, problems: Problems, warnings: list[str]
) -> tuple[TlsSettings, ClientAuth] | None:
    """If any key below `prefix` is set, only these keys count, else the keys of the worker's own connections (class
    SSLUtils)."""
    if all(listener.scheme != "https" for listener in listeners):
        return None
    own = {name.removeprefix(prefix): entry for name, entry in layer.items() if name.startswith(prefix)}
    reading = ConfigReader(own or layer, WORKER, problems)
    if _KEY_STORE not in reading.layer and "ssl.keystore.key" not in reading.layer:
        expected = "the certificate and key that an https listener shows"
        problems.add(ConfigProblem(file, None, (prefix if own else "") + _KEY_STORE, "missing", expected))
    return read_tls(reading, warnings), cast(ClientAuth, reading.text("ssl.client.auth"))
