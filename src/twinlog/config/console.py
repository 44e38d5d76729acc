"""The keys `twinlog.console.*`: the console that a process serves, and the login to it by an issuer of OpenID Connect.

The keys of the login are in the file of a process, or in a file of their own for `twinlog console`. A mistake in them
shows before the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from twinlog.config.keys.key import Key
from twinlog.config.keys.process import OAUTH, OAUTH_HTTPS
from twinlog.config.keys.scope import spelled
from twinlog.config.keys.table import PROCESS, WORKER, KeyTable
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.security.tls import read_tls
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.entries import check_value, read_providers, refuse_useless, resolve_entry, without_duplicates
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.open_id import CALLBACK, OpenIdSettings
from twinlog.settings.tls import TlsSettings
from twinlog.settings.worker import ServedConsole, is_loopback
from twinlog.settings.written import key_of

ISSUER, REDIRECT = key_of(OpenIdSettings, "issuer"), key_of(OpenIdSettings, "redirect_uri")
SUBJECTS, GROUPS = key_of(OpenIdSettings, "subjects"), key_of(OpenIdSettings, "groups")
SCOPE = key_of(OpenIdSettings, "scope")

_EXAMPLES: Mapping[str, str] = {
    ISSUER: "the address of the issuer, for example https://id.example/realms/ops",
    key_of(OpenIdSettings, "client_id"): "the id of the console at the issuer",
    REDIRECT: f"the address that the issuer has for this client, https://HOST:PORT{CALLBACK}",
}
"""The keys that each login needs, each with its meaning."""

_PROVIDERS = "config.providers"


def read_console(
    layer: Mapping[str, PropertyEntry], table: KeyTable, problems: Problems, warnings: list[ConfigWarning]
) -> ServedConsole:
    """The console of a file whose keys outside of flows are in `table`; a wrong value becomes a problem."""
    fields = read_fields(ServedConsole, ConfigReader(layer, table, problems))
    return ServedConsole(**fields, open_id=read_open_id(layer, table, problems, warnings))


def read_open_id(
    layer: Mapping[str, PropertyEntry], table: KeyTable, problems: Problems, warnings: list[ConfigWarning]
) -> OpenIdSettings | None:
    """The login by an issuer; None if the file has none of its keys. A wrong value becomes a problem."""
    own = [entry for name, entry in layer.items() if name.startswith(OAUTH)]
    if not own:
        return None
    reading = ConfigReader(layer, table, problems)
    file = own[0].file
    for name, expected in _EXAMPLES.items():
        entry = layer.get(name)
        if entry is None:
            problems.add(ConfigProblem(file, None, name, "missing", expected))
        elif entry.unresolved is None and not entry.value.strip():
            problems.refuse(entry, "nothing", expected)
    _check_address(reading, ISSUER)
    _check_address(reading, REDIRECT, CALLBACK)
    if not reading.items(SUBJECTS) and not reading.items(GROUPS):
        expected = f"subjects (* for each user of the issuer), or {GROUPS}"
        problems.add(ConfigProblem(file, None, SUBJECTS, "missing", expected))
    if "openid" not in reading.text(SCOPE).split():
        problems.refuse(layer[SCOPE], repr(layer[SCOPE].value), "scopes with openid among them, separated by blanks")
    return OpenIdSettings(**read_fields(OpenIdSettings, reading), tls=_tls(layer, problems, warnings))


def load_open_id(path: Path) -> tuple[OpenIdSettings, tuple[ConfigWarning, ...]]:
    """The login of a file of its own, with keys `twinlog.console.oauth.*` and providers; and warnings.

    Raises ConfigError with every problem found. Reads only this file, the targets of its `${...}` references, and its
    trust store.
    """
    file, warnings, found = str(path), list[ConfigWarning](), list[ConfigProblem]()
    last = without_duplicates(read_properties(path), warnings)
    providers = read_providers(last, file, found, warnings)
    problems = Problems(found)
    layer: dict[str, PropertyEntry] = {}
    for name, entry in last.items():
        if name == _PROVIDERS or name.startswith(f"{_PROVIDERS}."):
            continue
        key = _own_key(name)
        if key is None:
            expected = spelled(name, [one for one in PROCESS.exact if one.startswith(OAUTH)], otherwise="")
            problems.refuse(entry, "unknown key", expected, MistakeKind.UNKNOWN_KEY)
            continue
        layer[name] = resolve_entry(entry, key, providers, warnings)
        problems.add_new(filter(None, [check_value(layer[name], key, warnings)]))
    useless: list[ConfigProblem] = []
    refuse_useless(useless, warnings)
    problems.add_new(useless)
    settings = read_open_id(layer, PROCESS, problems, warnings)
    if settings is None:
        problems.add(ConfigProblem(file, None, ISSUER, "missing", _EXAMPLES[ISSUER]))
    if settings is None or problems.all():
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        raise ConfigError(in_order, warnings)
    return settings, tuple(warnings)


def _own_key(name: str) -> Key | None:
    return PROCESS.find_key(name) if name.startswith(OAUTH) else None


def _check_address(reading: ConfigReader, name: str, path: str = "") -> None:
    """Refuse an address that a browser or the console would reach in the clear, and another `path` than the given."""
    entry = reading.get_entry(name)
    if entry is None or not entry.value.strip():
        return
    parts = _parts(entry.value.strip())
    host = None if parts is None else parts.hostname
    if parts is None or not host or parts.query or parts.fragment or "@" in parts.netloc:
        reading.problems.refuse(entry, repr(entry.value), f"an address with a host, as {_EXAMPLES[name]}")
    elif parts.scheme != "https" and (parts.scheme != "http" or not is_loopback(host)):
        expected = "https: codes and tokens of a login cross the network; http is for addresses of this machine"
        reading.problems.refuse(entry, repr(entry.value), expected)
    elif path and parts.path != path:
        reading.problems.refuse(entry, repr(entry.value), f"an address with the path {path}")


def _parts(address: str) -> SplitResult | None:
    """The parts of an address; None for a malformed address."""
    try:
        parts = urlsplit(address)
        return parts if parts.port != 0 else None
    except ValueError:
        return None


def _tls(layer: Mapping[str, PropertyEntry], problems: Problems, warnings: list[ConfigWarning]) -> TlsSettings | None:
    """The settings `ssl.*` below `twinlog.console.oauth.https.`; None if the file lacks all of them."""
    own = {name.removeprefix(OAUTH_HTTPS): entry for name, entry in layer.items() if name.startswith(OAUTH_HTTPS)}
    return read_tls(ConfigReader(own, WORKER, problems), warnings) if own else None
